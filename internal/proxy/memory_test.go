package proxy

import "testing"

func TestLeases(t *testing.T) {
	m := &memory{limit: 80}
	body, other, answer := m.requestLease(), m.requestLease(), m.answerLease()
	for _, step := range []struct {
		what  string
		lease *lease
		to    int64
		want  bool
		used  int64
	}{
		{"a body grows", body, 50, true, 50},
		{"it has that already", body, 40, true, 50},
		{"bodies leave an eighth", other, 21, false, 50},
		{"up to that they grow", other, 20, true, 70},
		{"an answer takes the rest", answer, 10, true, 80},
		{"there is no more", answer, 11, false, 80},
		{"what a body has, it has", body, 50, true, 80},
		{"what is not counted", nil, 1 << 40, true, 80},
	} {
		if got := step.lease.grow(step.to); got != step.want || m.used.Load() != step.used {
			t.Errorf("%s: %v, want %v; used %d, want %d", step.what, got, step.want, m.used.Load(), step.used)
		}
	}
	for range 2 { // the second time changes nothing
		body.release()
		answer.release()
		if got := m.used.Load(); got != 20 {
			t.Errorf("used %d, want 20", got)
		}
	}
	if !body.grow(1) || m.used.Load() != 21 {
		t.Errorf("used %d after a new beginning, want 21", m.used.Load())
	}
}
