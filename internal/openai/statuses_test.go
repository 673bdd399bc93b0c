package openai_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/openai"
)

// D3: each status that a backend can answer with means what the outcome table says, and none is forgotten.
func TestEveryStatusHasItsClass(t *testing.T) {
	classOf := func(status int) openai.Class {
		in := func(list ...int) bool { return slices.Contains(list, status) }
		switch {
		case in(429, 529):
			return openai.Refused
		case in(401, 402):
			return openai.Misconfigured
		case in(403):
			return openai.Forbidden
		case in(404, 405, 501):
			return openai.Unsupported
		case in(408, 425, 499):
			return openai.Failed
		case status < 300:
			return openai.Success // so far: its body says more
		case status < 400:
			return openai.Misconfigured // redirects
		case status < 500:
			return openai.Rejected
		}
		return openai.Failed
	}
	want, got := map[int]openai.Class{}, map[int]openai.Class{}
	for status := 200; status <= 999; status++ {
		want[status] = classOf(status)
		got[status] = openai.JudgeStatus(&openai.Response{Status: status, Body: []byte(`{"error":{"message":"x"}}`)}).Class
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
}
