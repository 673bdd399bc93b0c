package proxy

import (
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/openai"
)

// Headers by which a caller shortens the route's timeouts.request.
const (
	headerDeadline = "X-Request-Deadline-Ms"
	headerTimeout  = "X-Request-Timeout-Ms"
)

// absoluteFrom is the smallest number of X-Request-Deadline-Ms that is read as milliseconds since 1970 (September 2001)
// and not as a duration (of thirty years).
const absoluteFrom = 1_000_000_000_000

// budget is the time that a request has over queue, attempts and fallbacks. The zero value is unlimited.
type budget struct {
	total time.Duration
	ends  time.Time
}

func newBudget(began time.Time, total time.Duration) budget {
	if total <= 0 {
		return budget{}
	}
	return budget{total: total, ends: began.Add(total)}
}

func (b *budget) limited() bool { return b.total > 0 }

// spent says whether the time is over.
func (b *budget) spent(now time.Time) bool { return b.limited() && !now.Before(b.ends) }

// free is what is left beside what is kept for others (further backends that may have to follow): a tenth of the budget for each, so
// that the last resort is reached.
func (b *budget) free(now time.Time, others int) time.Duration {
	return b.ends.Sub(now) - b.total/10*time.Duration(others)
}

// share is how long an attempt may take: what is free. Where nothing is, as behind a body that took long to come, it is an equal part
// of what is left. 0 is unlimited.
func (b *budget) share(now time.Time, others int) time.Duration {
	if !b.limited() {
		return 0
	}
	if free := b.free(now, others); free > 0 {
		return free
	}
	return max(b.ends.Sub(now)/time.Duration(others+1), 1)
}

// callersBudget returns the route's budget, shortened by what the caller asked for. It is never longer. began is the wall time
// at which the budget begins.
func callersBudget(h http.Header, began time.Time, routes time.Duration) (time.Duration, *openai.Error) {
	total := routes
	for name, text := range asked(h) {
		ms, err := strconv.ParseInt(text, 10, 64)
		if errors.Is(err, strconv.ErrRange) {
			err = nil // it is the largest that there is, or the smallest
		}
		if err != nil || ms <= 0 {
			return 0, &openai.Error{Code: openai.CodeInvalidRequest, Param: name,
				Message: "the header " + name + " must hold a positive whole number of milliseconds"}
		}
		wanted := milliseconds(ms)
		if name == headerDeadline && ms >= absoluteFrom {
			wanted = max(time.UnixMilli(ms).Sub(began), 1)
		}
		if total == 0 || wanted < total {
			total = wanted
		}
	}
	return total, nil
}

// asked yields the headers that shorten the budget, by name and value.
func asked(h http.Header) iter.Seq2[string, string] {
	return func(yield func(name, text string) bool) {
		for _, name := range [...]string{headerDeadline, headerTimeout} {
			for _, text := range h[name] {
				if text = strings.TrimSpace(text); text != "" && !yield(name, text) {
					return
				}
			}
		}
	}
}

// milliseconds converts without overflow.
func milliseconds(ms int64) time.Duration {
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(ms, longest)) * time.Millisecond
}
