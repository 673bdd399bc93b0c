package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Five proxies", Ordered, func() {
	It("learn a saturated backend from as many slow turns as the threshold says, and one of them probes", func(ctx SpecContext) {
		backend.set("once-tower", silent)
		route(ctx, "once", unlimited+fmt.Sprintf(slow, "4s"))
		began := time.Now()
		for i := range 3 { // the threshold, each turn at another proxy
			Expect(mustAsk(ctx, system.Proxies[i], "once").backend).To(Equal("hosted"))
		}
		Eventually(last(began)).Should(HaveEach("Open"))
		backend.set("once-tower", well)
		for _, p := range system.Proxies {
			a := mustAsk(ctx, p, "once")
			Expect(a.backend).To(Or(Equal("hosted"), Equal("tower"))) // the latter where the cooldown is over by now
		}
		Eventually(last(began)).Should(HaveEach("Closed"))
		Expect(backend.of("once-tower").probes).To(Equal(1), "one prober in the fleet")
		opened, own := 0, 0
		for _, p := range system.Proxies {
			for _, t := range transitions(p, began) {
				if t.To == "Open" {
					opened++
					if !t.Adopted {
						own++
					}
				}
			}
		}
		Expect(opened).To(Equal(proxies), "each opens once: nobody found out anew")
		Expect(mustAsk(ctx, system.Proxies[4], "once").backend).To(Equal("tower"))
		Expect(backend.of("once-tower").calls).To(BeNumerically("<=", 3+proxies+1), "three slow turns; the rest are answers")
		AddReportEntry("proxies that opened on their own", own)
	})

	It("adopt an opening within a moment", func(ctx SpecContext) {
		const backends = 24
		var manifests strings.Builder
		for i := range backends {
			name := fmt.Sprintf("adopt-%02d", i)
			backend.set(name+"-tower", full)
			manifests.WriteString(manifest(name, unlimited))
		}
		apply(ctx, manifests.String())
		for i := range backends {
			ready(ctx, fmt.Sprintf("adopt-%02d", i))
		}
		var took []time.Duration
		for i := range backends {
			began := time.Now()
			p := system.Proxies[i%proxies]
			Expect(mustAsk(ctx, p, fmt.Sprintf("adopt-%02d", i)).backend).To(Equal("hosted"))
			Eventually(last(began)).Should(HaveEach("Open"))
			own := transitions(p, began)[0]
			Expect(own.Adopted).To(BeFalse())
			for _, other := range system.Proxies {
				if other != p {
					t := transitions(other, began)[0]
					Expect(t.Adopted).To(BeTrue())
					took = append(took, t.Time.Sub(own.Time))
				}
			}
		}
		slices.Sort(took)
		AddReportEntry("adoption p50, p99", fmt.Sprint(took[len(took)/2], took[len(took)*99/100]))
		// The target is 99 % within a second. A busy machine may need more; what goes by a timer would be seen in the median.
		Expect(took[len(took)/2]).To(BeNumerically("<", time.Second))
		Expect(took[len(took)*99/100]).To(BeNumerically("<", 10*time.Second))
	})
})
