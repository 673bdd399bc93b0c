package fleet

import (
	"cmp"
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spillway-dev/spillway/test/stack"
)

var _ = Describe("Without the API server", Ordered, func() {
	var successor *stack.Supervised // the manager that leads in the end; nil while it is the first
	It("a proxy works on its own memory and catches up", func(ctx SpecContext) {
		var alone *stack.Proxy
		for _, p := range system.Proxies { // the one behind the forwarder may have been replaced
			if p.Name == fmt.Sprintf("spillway-proxy-%d", proxies) {
				alone = p
			}
		}
		Expect(alone).NotTo(BeNil())
		backend.set("cut-tower", full)
		route(ctx, "cut", unlimited)
		line.Cut()
		began := time.Now()
		Expect(mustAsk(ctx, other(alone), "cut").backend).To(Equal("hosted"))
		Eventually(func() string { return field(ctx, "cut", "{.status.state}") }).Should(Equal("Saturated"))
		Expect(transitions(alone, began)).To(BeEmpty(), "nobody can have told it")
		apply(ctx, manifest("cut", unlimited+"model: cut-renamed\n  "))
		Eventually(func() string { return field(ctx, "cut", "{.status.model} {.status.proxies}") }).Should(Equal(fmt.Sprintf("cut-renamed %d/%d", proxies-1, proxies)))
		Expect(mustAsk(ctx, alone, "cut").backend).To(Equal("hosted"), "it serves the last table, and finds out by itself")
		line.Mend()
		ready(ctx, "cut")
	})

	It("a restart of the API server changes nothing for callers, and what happened meanwhile is told after it", func(ctx SpecContext) {
		backend.set("restart-tower", full)
		route(ctx, "restart", unlimited)
		Expect(system.StopAPIServer()).To(Succeed())
		for _, p := range system.Proxies {
			Expect(mustAsk(ctx, p, "restart").backend).To(Equal("hosted"))
		}
		Expect(system.StartAPIServer(ctx)).To(Succeed())
		Eventually(func() string { return field(ctx, "restart", "{.status.state}") }).Should(Equal("Saturated"))
		apply(ctx, manifest("restart", unlimited+"responseModel: Physical\n  "))
		ready(ctx, "restart")
	})

	It("a new leader takes over from one that ends and from one that is killed, and no two managers write at a time", func(ctx SpecContext) {
		second, err := system.AddManager(ctx)
		Expect(err).NotTo(HaveOccurred())
		_, offset, err := system.ReadAudit(0)
		Expect(err).NotTo(HaveOccurred())
		route(ctx, "leader", unlimited)
		stop := edits(ctx, "leader")
		Eventually(writers(offset)).Should(HaveLen(1))
		Expect(system.Manager.Stop(patience)).To(Succeed())
		Eventually(writers(offset)).Should(HaveLen(2))

		successor, err = system.AddManager(ctx)
		Expect(err).NotTo(HaveOccurred())
		second.Kill() // nobody leads until its lease has run out
		backend.set("leader-tower", full)
		Expect(mustAsk(ctx, system.Proxies[0], "leader").backend).To(Equal("hosted"))
		Eventually(writers(offset)).Should(HaveLen(3))
		stop()
		ready(ctx, "leader")
		Expect(field(ctx, "leader", "{.status.state}")).To(Equal("Saturated"), "what happened meanwhile is told")
		Expect(writers(offset)()).To(HaveLen(3), "each wrote in one stretch, one after the other")
	})

	It("all comes back to truth when etcd has lost everything and the objects are applied again", func(ctx SpecContext) {
		backend.set("lost-tower", full)
		route(ctx, "lost", unlimited)
		Expect(mustAsk(ctx, system.Proxies[0], "lost").backend).To(Equal("hosted"))
		manager := cmp.Or(successor, system.Manager)
		before := manager.PID()
		Expect(system.LoseData(ctx)).To(Succeed())
		Eventually(manager.PID).ShouldNot(Equal(before), "a manager begins anew, for its watches would be silent")
		Expect(mustAsk(ctx, system.Proxies[1], "lost").backend).To(Equal("hosted"), "callers go on")
		apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+team+"}\n")
		route(ctx, "lost", unlimited)
		// The salt is lost as well where the manager was restarted, and with it every backend's identity: one call finds out anew.
		Expect(mustAsk(ctx, system.Proxies[2], "lost").backend).To(Equal("hosted"))
		Eventually(func() string { return field(ctx, "lost", "{.status.state}") }).Should(Equal("Saturated"))
		route(ctx, "after", unlimited)
		for _, p := range system.Proxies {
			Expect(mustAsk(ctx, p, "after").backend).To(Equal("tower"))
		}
	})
})

func other(than *stack.Proxy) *stack.Proxy {
	for _, p := range system.Proxies {
		if p != than {
			return p
		}
	}
	return nil
}

// edits changes a route on and on until it is told to stop.
func edits(ctx context.Context, name string) (stop func()) {
	const pause = 100 * time.Millisecond // not faster than needed: this machine does other things
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			patch := fmt.Sprintf(`{"spec":{"queue":{"length":%d}}}`, 1+i%100)
			_, _ = system.Admin().Kubectl(ctx, "-n", team, "patch", "llmroute", name, "--type=merge", "-p", patch) // the last one may be cut
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// writers returns the managers that have written, a new entry each time that another one than before has.
func writers(offset int64) func() []string {
	return func() []string {
		writes, _, err := system.ReadAudit(offset)
		Expect(err).NotTo(HaveOccurred())
		var stretches []string
		for i := range writes {
			w := &writes[i]
			manages := w.User == "system:serviceaccount:"+stack.Namespace+":spillway-manager"
			if !manages || w.Resource == "leases" || w.Resource == "events" || w.Code >= 300 {
				continue
			}
			if n := len(stretches); n == 0 || stretches[n-1] != w.Pod {
				stretches = append(stretches, w.Pod)
			}
		}
		return stretches
	}
}
