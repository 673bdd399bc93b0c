package controller

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/controller"
	"github.com/spillway-dev/spillway/internal/table"
)

var _ = Describe("A pin", func() {
	It("goes through its life to the second, tells it, and is deleted after its retention", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		w.start(ctx, hooks{options: func(o *controller.Options) { o.PinRetention = 3 * time.Second }})
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		(&proxy{w: w, name: "proxy-1"}).report(ctx)
		Eventually(routeState(ctx, r)).Should(ContainSubstring("serving=tower"))

		starts := metav1.NewTime(time.Now().Add(3 * time.Second).Truncate(time.Second))
		ends := metav1.NewTime(starts.Add(4 * time.Second))
		pin := w.pin(ctx, "game-night", "hosted", func(s *v1alpha1.BackendPinSpec) { s.StartsAt, s.ExpiresAt, s.Reason = &starts, &ends, "game night" })
		phase := func() string {
			s := get(ctx, pin).Status
			return string(s.Phase) + " " + condition(s.Conditions, v1alpha1.ConditionActive)
		}
		Eventually(phase).Should(Equal("Pending False/Pending"))
		Eventually(phase).Should(Equal("Active True/Active"))
		Expect(time.Now()).To(BeTemporally(">=", starts.Time))
		Expect(pin.Status.Scope).To(Equal("default"))
		Expect(pin.Status.Routes).To(Equal([]string{"default"}))
		Eventually(func() string { return get(ctx, r).Status.Pinned }).Should(Equal("hosted until " + ends.UTC().Format(time.RFC3339) + " (game-night)"))
		Expect(r.Status.Serving).To(Equal("hosted"))
		Eventually(phase).Should(Equal("Expired False/Expired"))
		Expect(time.Now()).To(BeTemporally(">=", ends.Time))
		Eventually(func() string { return get(ctx, r).Status.Pinned + get(ctx, r).Status.Serving }).Should(Equal("tower"))
		Eventually(func() bool { return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(pin), pin)) }).Should(BeTrue())
		Expect(time.Now()).To(BeTemporally(">=", ends.Add(3*time.Second)))
		Expect(notes(ctx, pin)()).To(ConsistOf(
			And(HavePrefix("PinActivated: hosted serves first on default until "), HaveSuffix(": game night")),
			"PinExpired: the pin of hosted has ended: game night; the order of the chain holds again"))
	})

	It("that nothing matches says so, and one that is overruled too", func(ctx context.Context) {
		w := newWorld(ctx)
		w.route(ctx, "default")
		w.start(ctx, hooks{})
		active := func(pin *v1alpha1.BackendPin) func() string {
			return func() string { return condition(get(ctx, pin).Status.Conditions, v1alpha1.ConditionActive) }
		}
		absent := w.pin(ctx, "absent", "no-such-backend")
		Eventually(active(absent)).Should(Equal("False/NoSuchBackend"))
		Expect(absent.Status.RoutesWithoutBackend).To(Equal([]string{"default"}))
		Expect(absent.Status.Phase).To(Equal(v1alpha1.PinIneffective))
		lost := w.pin(ctx, "lost", "hosted", func(s *v1alpha1.BackendPinSpec) { s.Routes.Names = []string{"elsewhere"} })
		Eventually(active(lost)).Should(Equal("False/NoSuchRoute"))
		first := w.pin(ctx, "first", "hosted", func(s *v1alpha1.BackendPinSpec) { s.Mode = v1alpha1.PinOnly })
		Eventually(active(first)).Should(Equal("True/Active"))
		Eventually(func() bool { return time.Since(first.CreationTimestamp.Time) > time.Second }).Should(BeTrue()) // whole seconds
		second := w.pin(ctx, "second", "tower", func(s *v1alpha1.BackendPinSpec) { s.Mode = v1alpha1.PinOnly })
		Eventually(active(second)).Should(Equal("True/Active"))
		Eventually(active(first)).Should(Equal("False/Superseded"))
		Expect(first.Status.Phase).To(Equal(v1alpha1.PinIneffective))
		Expect(admin.Delete(ctx, second)).To(Succeed())
		Eventually(active(first)).Should(Equal("True/Active"))
	})

	It("that was made or edited to have ended long ago stays for its retention", func(ctx context.Context) {
		w := newWorld(ctx)
		w.route(ctx, "default")
		w.start(ctx, hooks{options: func(o *controller.Options) { o.PinRetention = 5 * time.Second }})
		past := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		made := w.pin(ctx, "made", "hosted", func(s *v1alpha1.BackendPinSpec) { s.ExpiresAt = &past })
		edited := w.pin(ctx, "edited", "hosted")
		phase := func(pin *v1alpha1.BackendPin) func() v1alpha1.PinPhase {
			return func() v1alpha1.PinPhase { return get(ctx, pin).Status.Phase }
		}
		Eventually(phase(edited)).Should(Equal(v1alpha1.PinActive))
		edit(ctx, edited, func() { edited.Spec.Duration, edited.Spec.ExpiresAt = "", &past })
		for _, pin := range []*v1alpha1.BackendPin{made, edited} {
			Eventually(phase(pin)).Should(Equal(v1alpha1.PinExpired))
			Eventually(func() bool { return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(pin), pin)) }).Should(BeTrue())
			Expect(time.Since(pin.CreationTimestamp.Time)).To(BeNumerically(">=", 5*time.Second), pin.Name)
		}
	})

	It("that lasts too long is rejected and never in the table", func(ctx context.Context) {
		w := newWorld(ctx)
		w.route(ctx, "default")
		w.start(ctx, hooks{options: func(o *controller.Options) { o.MaxPin = time.Hour }})
		pin := w.pin(ctx, "forever", "hosted", func(s *v1alpha1.BackendPinSpec) { s.Duration = "2h" })
		Eventually(func() string {
			s := get(ctx, pin).Status
			return strings.Join([]string{string(s.Phase), condition(s.Conditions, v1alpha1.ConditionAccepted), condition(s.Conditions, v1alpha1.ConditionActive)}, " ")
		}).Should(Equal("Rejected False/TooLong False/NotAccepted"))
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).Should(HaveField("Pins", BeEmpty()))
	})
})

// pin makes a pin on the route default: Prefer, for an hour, if nothing is changed.
func (w world) pin(ctx context.Context, name, backend string, change ...func(*v1alpha1.BackendPinSpec)) *v1alpha1.BackendPin {
	p := &v1alpha1.BackendPin{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.team, Name: name},
		Spec:       v1alpha1.BackendPinSpec{Routes: v1alpha1.PinRoutes{Names: []string{"default"}}, Backend: backend, Mode: v1alpha1.PinPrefer},
	}
	for _, f := range change {
		f(&p.Spec)
	}
	if p.Spec.ExpiresAt == nil && p.Spec.Duration == "" {
		p.Spec.Duration = "1h"
	}
	Expect(admin.Create(ctx, p)).To(Succeed())
	return p
}
