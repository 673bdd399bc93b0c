package proxy

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// deadlines is a connection to a caller that notes when it was last given time, and whether that was before each flush.
type deadlines struct {
	*httptest.ResponseRecorder
	until   time.Time
	flushed []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { d.until = t; return nil }

func (d *deadlines) FlushError() error { d.flushed = append(d.flushed, d.until); return nil }

// The body of a request may take longer than one write may. A status line that is then committed alone, because there is
// nothing to tell yet, must not meet the deadline of the connection's beginning.
func TestEarlyCommitHasItsOwnDeadline(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	x := &exchange{r: httptest.NewRequest(http.MethodPost, "/v1/chat/completions", http.NoBody), began: time.Now().Add(-time.Hour)}
	x.caller.init(w, x.r, time.Minute, x)
	x.caller.listen(table.Heartbeat{})
	x.caller.beat(time.Now())
	if len(w.flushed) != 1 || time.Until(w.flushed[0]) <= 0 {
		t.Errorf("flushed under the deadlines %v", w.flushed)
	}
}
