package stream_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/api/stream"
)

func TestHeartbeatOnTheWire(t *testing.T) {
	for name, tc := range map[string]struct {
		in   stream.Heartbeat
		want string
	}{
		"queued":            {stream.Heartbeat{State: stream.StateQueued, Backend: "tower", Position: 3}, `{"state":"queued","backend":"tower","position":3}`},
		"attempt":           {stream.Heartbeat{State: stream.StateAttempt, N: 1, Of: 2, Backend: "tower", Regime: "contended"}, `{"state":"attempt","n":1,"of":2,"backend":"tower","regime":"contended"}`},
		"saturated":         {stream.Heartbeat{State: stream.StateBackendSaturated, Backend: "tower", FailingOver: true}, `{"state":"backend_saturated","backend":"tower","failing_over":true}`},
		"failed for good":   {stream.Heartbeat{State: stream.StateBackendFailed, Backend: "hosted", Code: "upstream_5xx"}, `{"state":"backend_failed","backend":"hosted","failing_over":false,"code":"upstream_5xx"}`},
		"upstream started":  {stream.Heartbeat{State: stream.StateUpstreamStarted, Backend: "hosted", N: 2, Reason: "saturated"}, `{"state":"upstream_started","n":2,"backend":"hosted","reason":"saturated"}`},
		"keepalive repeats": {stream.Heartbeat{State: stream.StateQueued, Position: 1, ElapsedMS: 10_000}, `{"state":"queued","position":1,"elapsed_ms":10000}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(tc.in.AppendJSON(nil)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			back, ok := stream.ParseHeartbeat([]byte(" " + tc.want))
			if diff := cmp.Diff(&tc.in, back); diff != "" || !ok {
				t.Errorf("read back %v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestParseHeartbeatSkipsOtherComments(t *testing.T) {
	for name, comment := range map[string]string{
		"empty": "", "text": " OPENROUTER PROCESSING", "half JSON": ` {"state":"atte`, "no state": ` {}`,
		"a state of another type": ` {"state":1}`, "a list": ` []`, "null": ` null`,
	} {
		if h, ok := stream.ParseHeartbeat([]byte(comment)); ok || h != nil {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

func TestHeartbeatElapsed(t *testing.T) {
	if got := (&stream.Heartbeat{ElapsedMS: 1500}).Elapsed(); got != 1500*time.Millisecond {
		t.Errorf("%v", got)
	}
}
