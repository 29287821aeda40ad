// Package suite is what the suites of the Go clients share: arguments, how a case tells what it found, waiting, and the
// address by which an agent is stopped.
//
//	<program> --bootstrap HOST:PORT [--admin URL] [--proxy URL] [CASE…]
//
// One line a case; exits 1 if one failed.
package suite

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Case is one named check. It ends by returning, by Fail or by Skip.
type Case struct {
	Name string
	Run  func()
	// ByNameOnly keeps it out of a run that names no case.
	ByNameOnly bool
}

// Bootstrap is the address of one agent; Admin is where agents are stopped and started, or empty.
var Bootstrap, Admin string

type failed struct{ why string }
type skipped struct{ why string }

// Fail ends the case.
func Fail(format string, arguments ...any) { panic(failed{fmt.Sprintf(format, arguments...)}) }

// Skip ends the case: this client, or this server, has no such thing.
func Skip(why string) { panic(skipped{why}) }

// Expect fails the case unless got and wanted are deeply equal.
func Expect(what string, got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		Fail("%s (expected %s, got %s)", what, shorten(wanted), shorten(got))
	}
}

// Must fails the case on an error that nobody asked for.
func Must(err error) {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		Fail("%v at %s:%d", err, filepath.Base(file), line)
	}
}

// Get is Must for a call that returns a value too.
func Get[T any](value T, err error) T {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		Fail("%v at %s:%d", err, filepath.Base(file), line)
	}
	return value
}

// Until looks every tenth of a second until it holds, and fails after a minute with what describe tells.
func Until(what string, holds func() bool, describe func() any) {
	Within(time.Minute, what, holds, describe)
}

// Within is Until with a limit of its own.
func Within(limit time.Duration, what string, holds func() bool, describe func() any) {
	deadline := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(deadline) {
			Fail("not within %v: %s (got %s)", limit, what, shorten(describe()))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

var run = strconv.FormatInt(time.Now().UnixMilli(), 36) + strconv.FormatInt(int64(os.Getpid()), 36)
var topics atomic.Int32

// NewName is a name for a topic or group that no other case and no other run has.
func NewName(client, name string) string {
	return fmt.Sprintf("%s-%s-%s-%d", client, name, run, topics.Add(1))
}

// Agent asks for an agent to be stopped or started: verb is "stop" or "start".
func Agent(node int32, verb string) {
	answer := Get(http.Post(fmt.Sprintf("%s/agents/%d/%s", Admin, node, verb), "", nil))
	answer.Body.Close()
	Expect(fmt.Sprintf("%s of agent %d: status", verb, node), answer.StatusCode/100, 2)
}

// Numbered is "<name> 0" to "<name> count-1".
func Numbered(name string, count int) []string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("%s %d", name, i))
	}
	return all
}

func shorten(value any) string {
	text := fmt.Sprintf("%v", value)
	if err, is := value.(error); is && err == nil || value == nil {
		text = "nothing"
	}
	if len(text) > 400 {
		text = fmt.Sprintf("%s… (%d bytes)", text[:400], len(text))
	}
	return text
}

// line runs a case and tells how it ended, and whether that is well. One that hangs is left behind.
func line(c Case) (text string, passed bool) {
	type end struct {
		text   string
		passed bool
	}
	ended := make(chan end, 1)
	go func() {
		text, passed := ending(c)
		ended <- end{text, passed}
	}()
	select {
	case e := <-ended:
		return e.text, e.passed
	case <-time.After(150 * time.Second):
		return "FAILED " + c.Name + ": not done within 150 s", false
	}
}

func ending(c Case) (text string, passed bool) {
	defer func() {
		switch end := recover().(type) {
		case nil:
			text, passed = "ok "+c.Name, true
		case skipped:
			text, passed = "skipped "+c.Name+": "+end.why, true
		case failed:
			text, passed = "FAILED "+c.Name+": "+end.why, false
		default:
			text, passed = fmt.Sprintf("FAILED %s: panic: %v", c.Name, end), false
		}
	}()
	c.Run()
	return
}

// Main runs the cases that the arguments name, or all.
func Main(cases []Case) {
	var names []string
	for i := 1; i < len(os.Args); i++ {
		switch os.Args[i] {
		case "--bootstrap":
			i++
			Bootstrap = os.Args[i]
		case "--admin":
			i++
			Admin = os.Args[i]
		case "--proxy":
			i++
			Proxy = os.Args[i]
		default:
			names = append(names, os.Args[i])
		}
	}
	known := map[string]Case{}
	for _, c := range cases {
		known[c.Name] = c
	}
	if len(names) == 0 {
		for _, c := range cases {
			if !c.ByNameOnly {
				names = append(names, c.Name)
			}
		}
	}
	allPassed := true
	for _, name := range names {
		c, found := known[name]
		if !found {
			c = Case{Name: name, Run: func() { Fail("no such case") }}
		}
		text, passed := line(c)
		fmt.Println(strings.ReplaceAll(text, "\n", " "))
		allPassed = allPassed && passed
	}
	if !allPassed {
		os.Exit(1)
	}
}
