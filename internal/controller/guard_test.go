package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history is an API server that is at these versions one after the other, and stays at the last; empty: it does not answer.
type history struct {
	client.Reader
	versions []string
	asked    []time.Duration // when, from the beginning
	began    time.Time
}

func (h *history) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	h.asked = append(h.asked, time.Since(h.began))
	version := h.versions[0]
	if len(h.versions) > 1 {
		h.versions = h.versions[1:]
	}
	if version == "" {
		return errors.New("no answer")
	}
	list.SetResourceVersion(version)
	return nil
}

func TestTheManagerEndsWhenTheAPIServerGoesBackInTime(t *testing.T) {
	cases := map[string]struct {
		versions  []string
		wantError string
		wantAsked []time.Duration // in seconds
	}{
		"a server that nobody writes to":                    {[]string{"9", "9", "9"}, "", []time.Duration{0, 10, 20, 30}},
		"a server that goes on":                             {[]string{"9", "10", "1000"}, "", []time.Duration{0, 10, 20, 30}},
		"one that has lost its data":                        {[]string{"1000", "7"}, "at resourceVersion 7 and was at 1000 before", []time.Duration{0, 10}},
		"one that was restored from a backup, in an outage": {[]string{"1000", "", "", "990"}, "at resourceVersion 990", []time.Duration{0, 10, 11, 12}},
		"one that was away and is as it was":                {[]string{"1000", "", "1000"}, "", []time.Duration{0, 10, 11, 21, 31}},
		"one whose versions are no numbers":                 {[]string{"b", "a"}, "", []time.Duration{0, 10, 20, 30}},
		"one that was away from the start":                  {[]string{"", "", "5"}, "", []time.Duration{0, 1, 2, 12, 22, 32}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &history{versions: tc.versions, began: time.Now()}
				var heard []bool
				g := &guard{reader: server, namespace: "system", clock: clock.RealClock{}, heard: func(answered bool) { heard = append(heard, answered) }}
				ctx, cancel := context.WithTimeout(t.Context(), 33*time.Second)
				defer cancel()
				err := g.Start(ctx)
				if tc.wantError == "" && err != nil || tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)) {
					t.Errorf("error = %v, want %q", err, tc.wantError)
				}
				asked := make([]time.Duration, len(server.asked))
				for i, at := range server.asked {
					asked[i] = at / time.Second
				}
				if diff := cmp.Diff(tc.wantAsked, asked); diff != "" {
					t.Errorf("asked after seconds (-want +got):\n%s", diff)
				}
				for i, answered := range heard {
					if want := tc.versions[min(i, len(tc.versions)-1)] != ""; answered != want {
						t.Errorf("question %d: told that it was answered = %v, want %v", i, answered, want)
					}
				}
				if len(heard) != len(asked) {
					t.Errorf("told of %d questions, want %d", len(heard), len(asked))
				}
			})
		})
	}
}
