package breaker

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// call is one caller's request.
func (h *history) call(how Mode) {
	h.mu.Lock()
	p, id, kind := h.pods[h.rnd.IntN(len(h.pods))], h.backends[h.rnd.IntN(len(h.backends))].ID, Kind(0)
	kind = h.health[id]
	patience := time.Duration(1+h.rnd.IntN(40)) * time.Second
	h.mu.Unlock()
	permit, ok := p.Admit(id, chat, how)
	if !ok {
		return
	}
	h.jobs.Go(func() {
		if permit.Probe() {
			defer h.goesOut(&out{pod: p, id: id})()
		}
		wait := time.Second
		if kind == Silent {
			wait = slowAfter
		}
		if wait > patience {
			wait, kind = patience, Neutral
		}
		<-time.After(wait)
		permit.Done(Result{Kind: kind})
		if kind == Neutral && wait >= SuspicionAfter {
			p.Suspect(id, chat)
		}
	})
}

// happen is one random event.
func (h *history) happen() {
	switch n := h.rnd.IntN(20); {
	case n < 4:
		h.call(Normal)
	case n < 7:
		h.call(LastResort)
	case n < 11:
		h.mu.Lock()
		id := h.backends[h.rnd.IntN(len(h.backends))].ID
		h.health[id] = []Kind{Success, Success, Silent, Silent, Refused, Failed, Misconfigured, Settled, EndpointMissing}[h.rnd.IntN(9)]
		kind := h.health[id]
		h.mu.Unlock()
		if kind != Success {
			for range 1 + h.rnd.IntN(3) {
				h.call(Normal)
			}
		}
	case n == 11:
		h.pin()
	case n == 12:
		h.edit()
	case n == 13 && len(h.pods) < 5:
		h.mu.Lock()
		h.start()
		h.disturbed(newsWithin)
		h.mu.Unlock()
	case n == 14 && len(h.pods) > 2:
		h.mu.Lock()
		h.kill(h.rnd.IntN(len(h.pods)))
		h.mu.Unlock()
	case n == 15 || n == 16:
		h.mu.Lock()
		h.heal()
		h.mu.Unlock()
	case n == 17:
		h.mu.Lock()
		p := h.pods[h.rnd.IntN(len(h.pods))]
		p.cut = true
		h.disturbed(5*time.Second + reportsLive + 2*reportsRenew + minProbeBound)
		h.mu.Unlock()
	}
}

func (h *history) disturbed(d time.Duration) {
	for _, p := range h.pods {
		if p.cut {
			d = 100 * time.Hour
		}
	}
	if until := time.Now().Add(d); until.After(h.unquiet) || d < 100*time.Hour && time.Until(h.unquiet) > 50*time.Hour {
		h.unquiet = until
	}
}

// heal ends all partitions.
func (h *history) heal() {
	for _, p := range h.pods {
		p.cut = false
	}
	h.disturbed(5*time.Second + reportsLive + 2*reportsRenew + minProbeBound)
}

// kill ends a proxy without a word, or with one.
func (h *history) kill(i int) {
	p := h.pods[i]
	h.pods = slices.Delete(h.pods, i, i+1)
	p.stop()
	if h.rnd.IntN(2) == 0 {
		for _, other := range h.pods {
			if _, known := other.seen[p.self]; known {
				delete(other.seen, p.self)
				other.Forget(p.self)
				other.tellPeers()
			}
		}
	}
	h.disturbed(5*time.Second + reportsLive + newsWithin + minProbeBound)
}

func (h *history) pin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	modes := []table.PinMode{table.PinPrefer, table.PinAvoid, table.PinOnly}
	from := time.Now().Add(time.Duration(h.rnd.IntN(600)) * time.Second)
	h.pins = append(h.pins[:0:0], table.Pin{Name: "p", Backend: h.backends[h.rnd.IntN(len(h.backends))].Name,
		Mode: modes[h.rnd.IntN(3)], StartsAt: from, ExpiresAt: from.Add(time.Duration(60+h.rnd.IntN(7200)) * time.Second)})
	h.apply()
}

func (h *history) edit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := &h.backends[h.rnd.IntN(len(h.backends))]
	switch h.rnd.IntN(4) {
	case 0:
		b.Group = []string{"", "ns/gpu"}[h.rnd.IntN(2)]
	case 1:
		b.Probe = []table.ProbeMode{table.ProbeSynthetic, table.ProbeRequest}[h.rnd.IntN(2)]
	case 2:
		b.Saturation.Threshold = 1 + h.rnd.IntN(3)
	case 3:
		b.Saturation.Cooldown = time.Duration(1+h.rnd.IntN(15)) * time.Minute
	}
	h.apply()
	h.disturbed(minProbeBound)
}

func (h *history) apply() {
	t := h.table()
	for _, p := range h.pods {
		p.Apply(t)
	}
}

// run lets a history happen, then makes all but one well and checks that the fleet finds out, and forgets.
func (h *history) run() {
	ctx, cancel := context.WithCancel(h.t.Context())
	h.ctx = ctx
	defer h.jobs.Wait()
	defer cancel()
	h.mu.Lock()
	for range 3 + h.rnd.IntN(2) {
		h.start()
	}
	h.mu.Unlock()
	for range 60 {
		h.happen()
		gap := []int{1, 5, 30, 200, 800}[h.rnd.IntN(5)]
		pass(time.Duration(h.rnd.IntN(1000*gap)+1) * time.Millisecond)
	}
	dead := h.rnd.IntN(len(h.backends))
	h.calmDown(dead)
	pass(2*satCooldown*11/10 + 5*time.Minute)
	h.states("after the recovery", dead, Closed)
	h.calmDown(-1)
	pass(2*time.Hour + satCooldown)
	h.atRest()
	h.learns()
}

// calmDown ends all that goes on; of the backends one at most stays down.
func (h *history) calmDown(dead int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pins = nil
	for i := range h.backends {
		h.backends[i].Probe = table.ProbeSynthetic
		h.health[h.backends[i].ID] = Success
		if i == dead {
			h.health[h.backends[i].ID] = Failed
		}
	}
	h.apply()
	h.heal()
}

// states checks the states of all backends but one, on all proxies.
func (h *history) states(when string, but int, want State) {
	for _, p := range h.pods {
		for i := range h.backends {
			if v := p.View(h.backends[i].ID, chat); i != but && v.State != want {
				h.fail("%s %s has %s %+v", when, p.self, h.backends[i].ID, v)
			}
		}
	}
}

// atRest checks that nothing is left of what has been over for long.
func (h *history) atRest() {
	for _, p := range h.pods {
		p.Registry.mu.Lock()
		for _, b := range *p.index.Load() {
			if _, active := p.active[b]; active || b.epoch != 0 || b.lastGood != 0 {
				h.fail("%s still looks at %s: %+v", p.self, b.id, b.record(0))
			}
		}
		p.Registry.mu.Unlock()
	}
}

// learns checks that the fleet needs as many bad turns as one proxy would.
func (h *history) learns() {
	for i := range h.backends {
		b := &h.backends[i]
		for range b.Saturation.Threshold {
			if permit, ok := h.pods[h.rnd.IntN(len(h.pods))].Admit(b.ID, chat, Normal); ok {
				permit.Done(Result{Kind: Silent})
			}
			pass(newsWithin)
		}
	}
	h.states("after silence", -1, Open)
}

// Whatever happens, one proxy of the fleet probes at a time, and what is well again is used again, and forgotten.
func TestRandomHistoriesOfAFleet(t *testing.T) {
	for _, seed := range []uint64{0, 12} { // of some hundreds that were tried
		synctest.Test(t, func(t *testing.T) {
			h := &history{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 17)), news: rand.New(rand.NewPCG(seed, 19)), health: map[table.BackendID]Kind{}, probed: map[table.BackendID][]time.Time{},
				backends: []table.Backend{server("a", grouped), server("b", grouped), server("c", grouped), server("d"), server("e", byRequest)}}
			for i := range h.backends {
				h.health[h.backends[i].ID] = Success
			}
			h.run()
		})
	}
}
