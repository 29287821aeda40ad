package suite

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Proxy is where `wavetank proxy`, which stands between the client and the brokers, takes faults, or empty (docs/serve.md,
// "Faults at the proxy").
var Proxy string

// faults is the last fault's id; another program may have had the same proxy before.
var faults = int(time.Now().UnixMilli() % 1_000_000_000)

// Frame is a line of the proxy's log.
type Frame struct {
	Number     int64  `json:"n"`
	Connection int64  `json:"connection"`
	Fault      int    `json:"fault"`
	What       string `json:"what"`
	Label      string `json:"label"`
}

// Has says whether all of these words are in its label.
func (f Frame) Has(words string) bool {
	of := strings.Fields(f.Label)
	return !slices.ContainsFunc(strings.Fields(words), func(word string) bool { return !slices.Contains(of, word) })
}

// Hold catches the nth frame from now on that has these words; it goes on when it is released.
func Hold(words string, nth int) (fault int) { return arm("hold", words, nth, nil) }

// Reset resets the connection of the nth frame from now on that has these words; the frame is lost.
func Reset(words string, nth int) { arm("reset", words, nth, nil) }

// Delay makes the next frame that has these words so much later.
func Delay(words string, by time.Duration) {
	arm("delay", words, 1, map[string]any{"by_ms": by.Milliseconds()})
}

func arm(fault, words string, nth int, more map[string]any) int {
	faults++
	what := map[string]any{"frame": map[string]any{"words": words, "nth": nth}}
	maps.Copy(what, more)
	ask("POST", "/faults", map[string]any{"id": faults, "fault": map[string]any{fault: what}})
	return faults
}

// Rewrite makes the nth answer to a Produce from now on that has these words say this; a nil offset stays as it is.
func Rewrite(words string, nth int, code int16, baseOffset *int64) {
	faults++
	frame := map[string]any{"words": words, "nth": nth}
	ask("POST", "/rewrites", map[string]any{"id": faults, "frame": frame, "code": code, "base_offset": baseOffset})
}

// Release lets go what the fault holds, and waits for the broker's answer to it; returns the answer's error code.
func Release(fault int) string {
	held := FirstFrame(0, func(f Frame) bool { return f.What == "held" && f.Fault == fault })
	ask("POST", fmt.Sprint("/release/", fault), nil)
	answer := FirstFrame(held.Number, func(f Frame) bool {
		return f.Connection == held.Connection && strings.HasPrefix(f.Label, "Produce.reply ")
	})
	return strings.Fields(answer.Label)[1]
}

// NextFrame is the number of the log's next line.
func NextFrame() int64 {
	frames := log(0)
	if len(frames) == 0 {
		return 0
	}
	return frames[len(frames)-1].Number + 1
}

// FirstFrame is the first line from this number on of which it holds, as soon as there is one.
func FirstFrame(from int64, wanted func(Frame) bool) (found Frame) {
	Within(20*time.Second, "the proxy sees what is waited for", func() bool {
		frames := log(from)
		at := slices.IndexFunc(frames, wanted)
		if at >= 0 {
			found = frames[at]
		}
		return at >= 0
	}, func() any { return len(log(from)) })
	return found
}

var stamp = regexp.MustCompile(` epoch=(\d+) seq=(\d+)`)

// Stamps are epoch and base sequence of every Produce with these words from this line on, epoch:sequence, each once.
func Stamps(words string, from int64) (stamps []string) {
	for _, f := range log(from) {
		found := stamp.FindStringSubmatch(f.Label)
		if found == nil || !f.Has("Produce "+words) || f.What == "released" {
			continue
		}
		if one := found[1] + ":" + found[2]; !slices.Contains(stamps, one) {
			stamps = append(stamps, one)
		}
	}
	return stamps
}

// Count is how many frames with these words have come from this line on.
func Count(words string, from int64) (count int) {
	for _, f := range log(from) {
		if f.Has(words) && f.What != "released" {
			count++
		}
	}
	return count
}

func log(from int64) (frames []Frame) {
	lines := json.NewDecoder(strings.NewReader(ask("GET", fmt.Sprint("/log?from=", from), nil)))
	for {
		var f Frame
		err := lines.Decode(&f)
		if err == io.EOF {
			return frames
		}
		Must(err)
		frames = append(frames, f)
	}
}

func ask(method, path string, what any) string {
	text := Get(json.Marshal(what))
	request := Get(http.NewRequest(method, Proxy+path, strings.NewReader(string(text))))
	answer := Get(http.DefaultClient.Do(request))
	defer answer.Body.Close()
	body := string(Get(io.ReadAll(answer.Body)))
	Expect(method+" "+path+": status of "+body, answer.StatusCode, 200)
	return body
}
