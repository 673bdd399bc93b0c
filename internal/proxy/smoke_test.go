package proxy_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStreamPassesWithItsComments(t *testing.T) {
	u := says(t, sseHead, role, c("Paris"), fin, done)
	r := newRig(t, newRoute(u))
	got := r.post(streamed)
	want := `: {"state":"attempt","n":1,"of":1,"backend":"a","regime":"unknown"}` + "\n" +
		`: {"state":"upstream_started","n":1,"backend":"a","reason":"first"}` + "\n" + role + c("Paris") + fin + done
	if diff := cmp.Diff(want, got.body); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	if got.status != http.StatusOK || got.err != nil {
		t.Errorf("status %d, error %v", got.status, got.err)
	}
	t.Log(r.log.String())
}

func TestBodyPasses(t *testing.T) {
	u := says(t, status(200, "", whole))
	r := newRig(t, newRoute(u))
	got := r.post(unary)
	if diff := cmp.Diff(whole, got.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	t.Log(got.header, r.log.String())
}
