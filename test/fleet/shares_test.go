package fleet

import (
	"context"
	"net/http"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spillway-dev/spillway/test/stack"
)

var _ = Describe("Shares", Ordered, func() {
	It("of slots and rates follow the proxies that come and go", func(ctx SpecContext) {
		backend.set("slots-tower", held)
		apply(ctx, `
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: slots, namespace: `+team+`}
spec:
  chain: [{name: tower, url: '`+backend.url("slots-tower")+`', model: m, maxInFlight: 10}]
  rateLimit: {requests: 0}
`)
		ready(ctx, "slots")
		route(ctx, "rate", "rateLimit: {requests: 20, per: 1s, burst: 1}\n  ")
		checkShares(ctx)
		for len(system.Proxies) > 2 {
			Expect(system.StopProxy(system.Proxies[0])).To(Succeed())
		}
		ready(ctx, "slots")
		checkShares(ctx)
		for len(system.Proxies) < proxies {
			_, err := system.StartProxy(ctx, "127.0.0.1:0")
			Expect(err).NotTo(HaveOccurred())
		}
		ready(ctx, "slots")
		checkShares(ctx)
	})
})

// checkShares holds the fleet, whatever its size, against the slots and the rate of the routes.
func checkShares(ctx context.Context) {
	GinkgoHelper()
	calls, end := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for _, p := range system.Proxies {
		for range 8 {
			wait.Go(func() { _, _ = ask(calls, p, "slots") })
		}
	}
	Eventually(func() int { return backend.of("slots-tower").inFlight }).Should(Equal(10))
	Consistently(func() int { return backend.of("slots-tower").inFlight }, "300ms").Should(Equal(10))
	end()
	wait.Wait()
	Eventually(func() int { return backend.of("slots-tower").inFlight }).Should(BeZero())

	began, allowed := time.Now(), 0
	var mu sync.Mutex
	until, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	for _, p := range system.Proxies {
		wait.Go(func() { count(until, p, &mu, &allowed) })
	}
	wait.Wait()
	// Each proxy holds the whole burst of one, and may have one call under way at the end.
	most := 20*time.Since(began).Seconds() + float64(2*len(system.Proxies))
	Expect(float64(allowed)).To(BeNumerically("<=", most), "the fleet lets more through than the route's rate")
	Expect(allowed).To(BeNumerically(">=", len(system.Proxies)), "at least the bursts")
}

// count asks on and on, and adds up what the rate limit lets through.
func count(ctx context.Context, p *stack.Proxy, mu *sync.Mutex, allowed *int) {
	for ctx.Err() == nil {
		a, err := ask(ctx, p, "rate")
		if err == nil && a.status == http.StatusOK {
			mu.Lock()
			*allowed++
			mu.Unlock()
		}
		select {
		case <-time.After(10 * time.Millisecond): // not faster than needed: this machine does other things
		case <-ctx.Done():
		}
	}
}
