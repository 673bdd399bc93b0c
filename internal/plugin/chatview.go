package plugin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	"k8s.io/utils/ptr"

	"github.com/spillway-dev/spillway/api/stream"
)

// Terminal sequences.
const (
	dimOn     = "\x1b[2m"
	dimOff    = "\x1b[22m"
	clearLine = "\r\x1b[2K"
)

// isTerminal says whether a stream is somebody's terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// chatView shows one turn: the answer on out; the state and reasoning on err, where on a terminal the state is one line
// that is written over.
type chatView struct {
	out, err io.Writer
	live     bool // err is a terminal
	now      func() time.Time
	began    time.Time

	whole stream.Assembler // of the turn: only it knows which words are new

	reasoning, reasoningContent, content, refusal seen

	answer    strings.Builder
	shown     string // the state line
	thinking  bool   // reasoning was written last
	open      bool   // the last line that was written has not ended
	first     time.Duration
	backend   string
	reason    string
	attempts  int
	completed int64 // tokens, 0 where the server does not say
}

func newChatView(c *cli) *chatView {
	return &chatView{out: c.Out, err: c.ErrOut, live: isTerminal(c.ErrOut), now: c.Clock.Now, began: c.Clock.Now()}
}

// headers tell who answers where that is settled before the status line goes out; else heartbeats do.
func (v *chatView) headers(h http.Header) {
	v.backend, v.reason = h.Get("X-Spillway-Backend"), h.Get("X-Spillway-Reason")
}

func (v *chatView) event(e stream.Event) {
	if e.Heartbeat != nil {
		v.heartbeat(e.Heartbeat)
		return
	}
	var told struct {
		Usage *stream.Usage `json:"usage"`
	}
	if json.Unmarshal(e.Data, &told) == nil && told.Usage != nil {
		v.completed = told.Usage.CompletionTokens
	}
	if v.whole.Add(e.Data) != nil {
		return // not ours to judge: the reader has accepted it
	}
	soFar, err := v.whole.Completion()
	if err != nil {
		return
	}
	m := &soFar.Choices[0].Message
	reasoning, other := v.reasoning.rest(m.Reasoning), v.reasoningContent.rest(m.ReasoningContent)
	v.think(cmp.Or(reasoning, other))
	v.say(v.content.rest(m.Content) + v.refusal.rest(m.Refusal))
}

// seen is how much of a text that grows has been shown, in bytes.
type seen int

// rest returns what has not.
func (s *seen) rest(text *string) string {
	whole := ptr.Deref(text, "")
	from := min(int(*s), len(whole))
	*s = seen(len(whole))
	return whole[from:]
}

func (v *chatView) heartbeat(h *stream.Heartbeat) {
	v.attempts = max(v.attempts, h.N)
	if h.State == stream.StateUpstreamStarted {
		v.backend, v.reason = h.Backend, cmp.Or(h.Reason, v.reason)
		return // the answer itself follows
	}
	said := heartbeatText(h)
	switch {
	case v.live && h.ElapsedMS > 0:
		v.status(fmt.Sprintf("%s, %s so far", said, h.Elapsed().Round(time.Second)))
	case v.live || h.ElapsedMS == 0: // a repetition tells a file nothing new
		v.status(said)
	}
}

func heartbeatText(h *stream.Heartbeat) string {
	switch h.State {
	case stream.StateQueued:
		return fmt.Sprintf("waiting for %s, number %d in its queue", h.Backend, h.Position)
	case stream.StateAttempt:
		text := fmt.Sprintf("asking %s (%d of %d)", h.Backend, h.N, h.Of)
		if h.Regime != "" {
			text += ", " + h.Regime
		}
		return text
	case stream.StateBackendSaturated, stream.StateBackendFailed:
		text := h.Backend + " is busy"
		if h.State == stream.StateBackendFailed {
			text = h.Backend + " failed"
		}
		if h.Code != "" {
			text += " (" + h.Code + ")"
		}
		if h.FailingOver {
			text += ", going on to the next"
		}
		return text
	default:
		return strings.TrimSpace(string(h.State) + " " + h.Backend)
	}
}

// status shows what is being waited for.
func (v *chatView) status(said string) {
	said = oneLine(said)
	switch {
	case said == v.shown || v.open:
	case v.live:
		fmt.Fprint(v.err, clearLine, dimOn, said, " ...", dimOff)
		v.shown = said
	default:
		fmt.Fprintf(v.err, "[%s] %s\n", v.now().Sub(v.began).Round(time.Second), said)
		v.shown = said
	}
}

// clear takes the state line away.
func (v *chatView) clear() {
	if v.live && v.shown != "" {
		fmt.Fprint(v.err, clearLine)
	}
	v.shown = ""
}

func (v *chatView) think(text string) {
	if text == "" {
		return
	}
	v.started()
	v.thinking = true
	if v.live {
		text = dimOn + printable(text) + dimOff
	}
	fmt.Fprint(v.err, text)
}

func (v *chatView) say(text string) {
	if text == "" {
		return
	}
	v.started()
	if v.thinking {
		fmt.Fprint(v.err, "\n\n")
		v.thinking = false
	}
	v.answer.WriteString(text)
	if isTerminal(v.out) {
		text = printable(text)
	}
	fmt.Fprint(v.out, text)
}

// started notes the first word.
func (v *chatView) started() {
	v.clear()
	if !v.open {
		v.first, v.open = v.now().Sub(v.began), true
	}
}

// breakLine ends the line that an answer left open.
func (v *chatView) breakLine() {
	v.clear()
	if v.open {
		fmt.Fprintln(v.out)
		v.open = false
	}
}

// finish says in one line who answered.
func (v *chatView) finish() {
	v.breakLine()
	said := []string{cmp.Or(v.backend, "the server") + " answered"}
	if v.reason != "" {
		said[0] += " (" + v.reason + ")"
	}
	if v.attempts > 1 {
		said = append(said, fmt.Sprintf("attempt %d", v.attempts))
	}
	said = append(said, fmt.Sprintf("first token after %s", v.first.Round(10*time.Millisecond)))
	if v.completed > 0 {
		said = append(said, fmt.Sprintf("%d tokens", v.completed))
	}
	line := oneLine(strings.Join(said, ", "))
	if v.live {
		line = dimOn + line + dimOff
	}
	fmt.Fprintln(v.err, line)
}

// printable keeps a model's words from steering the terminal; lines and tabs stay.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || (r >= ' ' && r != 0x7f && (r < 0x80 || r >= 0xa0)) {
			return r
		}
		return -1
	}, text)
}
