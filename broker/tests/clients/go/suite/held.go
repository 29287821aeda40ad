package suite

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// HeldEndTxn is a transactional producer as the user of a client has it, whose first EndTxn is held on its way, and let go in the
// middle of the next transaction. Not a check: the script .ci/vulnerability holds, releases, and looks what became of the
// transactions. It is asked for each by a line on standard output, and answers with one on standard input.
type HeldEndTxn struct {
	Topic                string
	Begin, Commit, Abort func() error
	// Send puts a value into a partition and waits for what becomes of it.
	Send func(partition int32, value string) error
}

// Run prints what the user is told of each call.
func (h HeldEndTxn) Run() {
	Must(h.Begin())
	Must(h.Send(0, "a"))
	answers := bufio.NewScanner(os.Stdin)
	ask := func(what string) {
		fmt.Println(what)
		answers.Scan()
	}
	told := func(call string, err error) {
		text := "ok"
		if err != nil {
			text = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Printf("told %s: %s\n", call, text)
	}
	ask("hold " + h.Topic)
	told("commit of a", h.Commit())
	told("begin", h.Begin())
	told("send of b", h.Send(0, "b"))
	ask("release")
	told("send of c", h.Send(1, "c"))
	told("abort of b and c", h.Abort())
}
