package plugin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-dev/spillway/api/stream"
)

// chatCommand asks a route's model something and shows what happens meanwhile.
type chatCommand struct {
	*cli
	targetFlags
	prefer        string
	maxTokens     int
	idle, ceiling time.Duration
}

func newChat(c *cli) *cobra.Command {
	h := &chatCommand{cli: c}
	cmd := &cobra.Command{
		Use:   "chat ROUTE [PROMPT]",
		Short: "Ask a route's model something, and see who answers and what you wait for",
		Long: `Ask a route's model something, and see who answers and what you wait for.

The answer goes to standard output; reasoning (dimmed) and what happens meanwhile go to standard error. Without a PROMPT
it is read from standard input: on a terminal line by line, as a conversation, else as a whole.

Where the proxies ask callers for a token, put it into $` + TokenVariable + `.`,
		Example: `  # Through a port-forward to the proxies' Service
  kubectl spillway chat default "Why is the sky blue?"

  # Through a proxy's own address; no cluster is needed for a model's full name
  kubectl spillway chat sirens-echo/default "Why is the sky blue?" --url http://127.0.0.1:8081

  # Ask for a backend first
  kubectl spillway chat default "Hello" --prefer tower`,
		Args:              routeFirst,
		ValidArgsFunction: c.completeRoutes,
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.run(cmd.Context(), args[0], strings.Join(args[1:], " "))
		},
	}
	h.declare(cmd)
	flags := cmd.Flags()
	flags.StringVar(&h.prefer, "prefer", "", "name of the backend to ask first (X-Prefer-Backend)")
	flags.IntVar(&h.maxTokens, "max-tokens", 0, "longest answer in tokens; 0: the model's own")
	flags.DurationVar(&h.idle, "idle", 2*time.Minute, "give up after this long without any sign of life; heartbeats are one")
	flags.DurationVar(&h.ceiling, "timeout", 10*time.Minute, "give up after this long in all")
	_ = cmd.RegisterFlagCompletionFunc("prefer", c.completeBackends) // the flag exists
	return cmd
}

func (h *chatCommand) run(ctx context.Context, routeOrModel, prompt string) error {
	t, err := h.openTarget(ctx, h.targetFlags, routeOrModel)
	if err != nil {
		return err
	}
	defer t.close()
	conversation := &conversation{chatCommand: h, target: t}
	switch {
	case strings.TrimSpace(prompt) != "":
		return conversation.turn(ctx, prompt)
	case isTerminal(h.In):
		return conversation.converse(ctx)
	default:
		prompt, err := readPrompt(h.In)
		if err != nil {
			return err
		}
		return conversation.turn(ctx, prompt)
	}
}

// maxPrompt bounds a prompt that is read, in bytes. No model takes as much.
const maxPrompt = 16 << 20

// readPrompt takes all of the input for one prompt.
func readPrompt(in io.Reader) (string, error) {
	whole, err := io.ReadAll(io.LimitReader(in, maxPrompt+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the prompt from standard input: %w", err)
	case len(whole) > maxPrompt:
		return "", fmt.Errorf("the prompt on standard input is longer than %d MiB", maxPrompt>>20)
	case strings.TrimSpace(string(whole)) == "":
		return "", errors.New("there is no prompt: write one behind the ROUTE, or to standard input")
	}
	return string(whole), nil
}

// message is one side's words.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// conversation keeps what was said.
type conversation struct {
	*chatCommand
	target *target
	said   []message
}

// converse takes turns until the end of the input, or of ctx. An error ends a turn, not the conversation.
func (c *conversation) converse(ctx context.Context) error {
	lines := c.lines(ctx)
	for {
		fmt.Fprint(c.ErrOut, "> ")
		select {
		case <-ctx.Done():
			fmt.Fprintln(c.ErrOut)
			return ctx.Err()
		case line, more := <-lines:
			if !more || line.err != nil {
				fmt.Fprintln(c.ErrOut)
				return cmp.Or(line.err, ctx.Err()) // the end of ctx ends the lines, too
			}
			if err := c.answerTo(ctx, line.text); err != nil {
				return err
			}
		}
	}
}

// answerTo takes a turn. Its error is that of ctx.
func (c *conversation) answerTo(ctx context.Context, line string) error {
	if strings.TrimSpace(line) == "" {
		return nil
	}
	err := c.turn(ctx, line)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(c.ErrOut, explainError(err))
		return nil
	}
	return err
}

// typedLine is a line of the input, or why there are no more.
type typedLine struct {
	text string
	err  error
}

// lines reads the input in a goroutine, since nothing can end a read from a terminal: one that is waited for when ctx ends
// is over with the process.
func (c *conversation) lines(ctx context.Context) <-chan typedLine {
	lines := make(chan typedLine)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(c.In)
		for more := true; more; {
			var line typedLine
			if more = in.Scan(); more {
				line.text = in.Text()
			} else if line.err = in.Err(); line.err == nil {
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// turn asks and shows the answer. A turn that fails is forgotten.
func (c *conversation) turn(ctx context.Context, prompt string) error {
	ctx, cancel := context.WithTimeout(ctx, c.ceiling)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	asked := append(c.said[:len(c.said):len(c.said)], message{"user", prompt})
	request, err := c.request(ctx, asked)
	if err != nil {
		return err
	}
	view := newChatView(c.cli)
	defer view.clear()
	view.status("asking")
	response, err := c.ask(request, giveUp)
	if err != nil {
		return c.explain(ctx, err)
	}
	defer response.Body.Close()
	reader := stream.Open(ctx, response, stream.Options{Idle: c.idle})
	defer func() { _ = reader.Close() }() // it closes the body, whose end is known by then
	view.headers(response.Header)
	for {
		event, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			view.finish()
			c.said = append(asked, message{"assistant", view.answer.String()})
			return nil
		case err != nil:
			view.breakLine()
			return c.explain(ctx, err)
		default:
			view.event(event)
		}
	}
}

// ask sends a request. A proxy that hangs sends not even the header of an answer, so silence counts from here on.
func (c *conversation) ask(request *http.Request, giveUp context.CancelCauseFunc) (*http.Response, error) {
	if c.idle > 0 {
		silence := time.AfterFunc(c.idle, func() { giveUp(stream.ErrSilent) })
		defer silence.Stop()
	}
	return c.target.client.Do(request)
}

func (c *conversation) request(ctx context.Context, messages []message) (*http.Request, error) {
	body, err := json.Marshal(struct {
		Model     string    `json:"model"`
		Stream    bool      `json:"stream"`
		MaxTokens int       `json:"max_tokens,omitempty"`
		Messages  []message `json:"messages"`
	}{c.target.model, true, c.maxTokens, messages})
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.target.base+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("User-Agent", "kubectl-spillway/"+c.Version)
	if c.prefer != "" {
		request.Header.Set("X-Prefer-Backend", c.prefer)
	}
	authorize(request)
	return request, nil
}

// explain says which of the ways to fail it was, and whether trying again can help.
func (c *conversation) explain(ctx context.Context, err error) error {
	var told *stream.Error
	switch {
	case errors.As(err, &told):
		return explainTold(told)
	case errors.Is(err, stream.ErrSilent), errors.Is(context.Cause(ctx), stream.ErrSilent):
		return fmt.Errorf("silent: nothing came for %s, not even a heartbeat (--idle); another try can work", c.idle)
	case errors.Is(err, stream.ErrIncomplete):
		return errors.New("cut: the stream ended before the answer was complete")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("too long: the answer was not complete after %s (--timeout)", c.ceiling)
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return fmt.Errorf("no connection: %w", err)
	}
}

func explainTold(e *stream.Error) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (status %d)", e.Error(), e.Status)
	if e.UpstreamStatus != 0 {
		fmt.Fprintf(&b, "; the backend answered %d", e.UpstreamStatus)
	}
	for i, a := range e.Attempts {
		separator := ", "
		if i == 0 {
			separator = "; tried: "
		}
		fmt.Fprintf(&b, "%s%s (%s)", separator, a.Backend, a.Class)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; try again in %s", e.RetryAfter)
	}
	return errors.New(oneLine(b.String()))
}
