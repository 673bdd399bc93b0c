package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/plan"
	"github.com/spillway-dev/spillway/internal/table"
)

// headerHint names the backend that a caller would like.
const headerHint = "X-Prefer-Backend"

// notReadyRetry is when a caller may try again that came before the first table.
const notReadyRetry = time.Second

// identify finds what decides about the request, and leaves the rest of the body alone.
func identify(x *exchange) *failure {
	envelope, err := openai.ParseEnvelope(x.body)
	if err != nil {
		return failed(asError(err))
	}
	x.envelope = envelope
	x.stream = envelope.Stream && x.endpoint.Streams()
	x.log.Stream = x.stream
	return nil
}

// asError passes on an error that was written for callers, and hides any other.
func asError(err error) *openai.Error {
	var told *openai.Error
	if errors.As(err, &told) {
		return told
	}
	return &openai.Error{Code: openai.CodeInternalError, Message: "this proxy made a mistake"}
}

// resolve looks the model up in one snapshot of the table, which holds to the request's end.
func resolve(x *exchange) *failure {
	t, f := x.table()
	if f != nil {
		return f
	}
	route := t.ByModel(x.envelope.Model)
	if route == nil {
		return failed(unknownModel(x.envelope.Model))
	}
	x.found(route)
	if len(x.route.Chain) == 0 {
		return failed(&openai.Error{Code: openai.CodeModelUnavailable,
			Message: "the route of this model has no usable backend; the conditions of the LLMRoute say why"})
	}
	began := x.p.cfg.Now().Add(-time.Since(x.began)) // the body may have taken long to come
	total, err := callersBudget(x.r.Header, began, x.route.Timeouts.Request)
	if err != nil {
		return failed(err)
	}
	x.budget = newBudget(x.began, total)
	return nil
}

// table is the snapshot of the table that the request sees.
func (x *exchange) table() (*table.Table, *failure) {
	if !x.p.cfg.Store.Ready() {
		return nil, failed(&openai.Error{Code: openai.CodeModelUnavailable, RetryAfter: notReadyRetry,
			Message: "this proxy has not read its routes yet"})
	}
	return x.p.cfg.Store.Load(), nil
}

// found notes which route the request is about.
func (x *exchange) found(route *table.Route) {
	x.route = route
	x.series = x.p.cfg.Metrics.Route(route)
	x.log.Route = route.Key()
}

// authorize asks whether the caller may use the route, where callers are told apart.
func authorize(x *exchange) *failure {
	if x.p.cfg.Authorize == nil {
		return nil
	}
	caller, refusal := x.p.cfg.Authorize.Authorize(x.r.Context(), x.r.Header, x.route)
	x.log.Caller = caller
	if refusal != nil {
		return x.refused(refusal)
	}
	return nil
}

// refused is the end of a request that was not let in. One whose caller left meanwhile has nobody to tell.
func (x *exchange) refused(refusal *openai.Error) *failure {
	if x.r.Context().Err() != nil {
		return x.gone()
	}
	return failed(refusal)
}

// rateLimit takes a token of the route's bucket. It comes after resolve, so that unknown names spend none.
func rateLimit(x *exchange) *failure {
	d := x.p.cfg.Admission.Allow(x.route)
	if d.Limited {
		h := x.caller.header()
		h.Set("X-Ratelimit-Limit-Requests", strconv.Itoa(d.Limit))
		h.Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(d.Remaining))
		h.Set("X-Ratelimit-Reset-Requests", d.Reset.Round(time.Millisecond).String())
	}
	if d.OK {
		return nil
	}
	x.series.RateLimited()
	limit := &x.route.RateLimit
	return failed(&openai.Error{Code: openai.CodeRateLimited, RetryAfter: d.RetryAfter,
		Message: fmt.Sprintf("the route takes %d requests per %s with a burst of %d (spec.rateLimit of LLMRoute %s)",
			limit.Requests, limit.Per, limit.Burst, x.route.Key())})
}

// makePlan settles the order of backends.
func makePlan(x *exchange) *failure {
	hint := x.r.Header.Get(headerHint)
	x.plan = plan.Make(plan.Input{
		Route: x.route, Hint: hint, Now: x.p.cfg.Now(), PromptTokens: x.promptTokens(),
		View: func(b *table.Backend) breaker.View { return x.p.cfg.Breakers.View(b.ID, x.path()) },
	})
	x.log.Hint, x.log.HintApplied = plan.CleanHint(hint), string(x.plan.Preference)
	x.next = string(x.plan.Reason)
	if len(x.plan.Steps) == 0 && !x.plan.AllOpen {
		return failed(&openai.Error{Code: openai.CodeModelUnavailable,
			Message: "a BackendPin of mode Only holds this model on a backend that cannot be used; the conditions of the LLMRoute say why"})
	}
	if x.log.Hint != "" {
		x.span.Preference(strings.ToValidUTF8(x.log.Hint, "?"), x.log.HintApplied)
	}
	return nil
}

// encodings mark a body whose bytes are not words: images, sound, files. An encoding_format that is base64 is that of an answer.
var encodings = [...][]byte{[]byte(";base64,"), []byte(`"type":"base64"`), []byte(`"type": "base64"`), []byte(`"type" : "base64"`),
	[]byte(`"input_audio"`), []byte(`"file_data"`), []byte(`"image_generation_call"`)}

// promptTokens is the size of a prompt, as far as its bytes tell. 0 is unknown: it carries more than words, or is not one text, or
// no backend declares a window to compare with.
func (x *exchange) promptTokens() int64 {
	declared := func(b table.Backend) bool { return b.ContextWindow > 0 }
	if !slices.ContainsFunc(x.route.Chain, declared) || x.isBatch() {
		return 0
	}
	if size := x.promptSize(); !size.encoded {
		return size.tokens
	}
	return 0
}

// promptSize is what the bytes of a body tell of its prompt.
type promptSize struct {
	tokens  int64
	encoded bool // it carries more than words
}

// promptSize looks through the body once; most routes never ask.
func (x *exchange) promptSize() promptSize {
	if x.prompt == nil {
		encoded := hasEncoded(x.body)
		x.prompt = &promptSize{words(x.body, encoded) / bytesPerToken, encoded}
	}
	return *x.prompt
}

func hasEncoded(body []byte) bool {
	return slices.ContainsFunc(encodings[:], func(mark []byte) bool { return bytes.Contains(body, mark) })
}

// words is how many bytes of a body are words: an escaped letter is about two, and what is encoded none.
func words(body []byte, encoded bool) int64 {
	n, escaped := len(body), bytes.Count(body, []byte(`\u`))
	if encoded {
		for text := range bytes.SplitSeq(body, []byte{'"'}) {
			if isEncoded(text) {
				n -= len(text)
				escaped -= bytes.Count(text, []byte(`\u`))
			}
		}
	}
	// Of an escaped letter's six bytes a third is left, and no less of a text that merely looks like many of them ("\\user").
	return int64(max(n-4*escaped, n/3))
}

// isEncoded says whether the inside of a string is long, and without spaces, letters beyond ASCII and escapes other than those of base64.
func isEncoded(text []byte) bool {
	if len(text) < 1024 {
		return false
	}
	for i, c := range text {
		if c <= ' ' || c > '~' || c == '\\' && !escapesBase64(text[i+1:]) {
			return false
		}
	}
	return true
}

// escapesBase64 says whether what follows a backslash is a sign of base64, each of which is escaped by some client: PHP's, .NET's, Gson.
func escapesBase64(rest []byte) bool {
	return slices.ContainsFunc(base64Escapes[:], func(escape string) bool {
		return len(rest) >= len(escape) && strings.EqualFold(string(rest[:len(escape)]), escape)
	})
}

var base64Escapes = [...]string{"/", "u002b", "u002f", "u003d"}

// isBatch says whether the request carries many prompts, each of which has a window of its own, or numbers instead of words.
func (x *exchange) isBatch() bool {
	return x.envelope.List && (x.endpoint == openai.Embeddings || x.endpoint == openai.Completions)
}

// bytesPerToken is the rule of thumb by which bytes become tokens, as the field slowAfterPerKilotoken documents it.
const bytesPerToken = 4

// quoteName shows a caller its own word, cut where it is longer than any name may be.
func quoteName(name string) string {
	const longest = 253
	if len(name) > longest {
		name = name[:longest] + "..."
	}
	return strconv.Quote(name)
}

// shuttingDown tells the process's end from a caller that left: net/http cancels for the latter without a cause.
func shuttingDown(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause != nil && cause != context.Canceled //nolint:errorlint // a wrapped cause is not net/http's
}

// requestID returns the caller's id where it is sane, else a new one.
func requestID(h http.Header) string {
	id := h.Get(headerRequestID)
	if isValidID(id) {
		return id
	}
	return newID()
}
