package apitest

import (
	"context"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// tower is the backend that every test's table names.
const tower = table.BackendID("0123456789abcdef0123456789abcdef")

const endpoint = breaker.DefaultEndpoint

// proxy is as much of a proxy as has to do with the API server.
type proxy struct {
	*fleet.Fleet
	name     string
	store    *table.Store
	breakers *breaker.Registry
	live     atomic.Int64 // what the limits were last told
	stop     func()       // ends Run and waits for it
}

// SetLive implements fleet.Shares.
func (p *proxy) SetLive(n int) { p.live.Store(int64(n)) }

// startProxy runs a proxy's Fleet with the identity of a pod of that name.
func startProxy(ctx context.Context, name string) *proxy {
	GinkgoHelper()
	config, uid := identity(ctx, account, name)
	return runProxy(name, config, func(c *fleet.Config) { c.PodUID = uid })
}

// startSkewed runs a proxy on a node whose wall clock is ahead of ours.
func startSkewed(ctx context.Context, name string, ahead time.Duration) *proxy {
	GinkgoHelper()
	config, uid := identity(ctx, account, name)
	return runProxy(name, config, func(c *fleet.Config) { c.PodUID, c.Clock = uid, skewedClock{ahead: ahead} })
}

// skewedClock is the machine's clock, ahead by a fixed span.
type skewedClock struct {
	clock.RealClock
	ahead time.Duration
}

// Now implements clock.PassiveClock.
func (c skewedClock) Now() time.Time { return time.Now().Add(c.ahead) }

// Since implements clock.PassiveClock.
func (c skewedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// wallClock gives the breakers the wall clock that their proxy goes by.
type wallClock struct {
	breaker.Clock
	clock clock.PassiveClock
}

// Wall implements breaker.Clock.
func (c wallClock) Wall() time.Time { return c.clock.Now().Round(0) }

func runProxy(name string, config *rest.Config, change func(*fleet.Config)) *proxy {
	GinkgoHelper()
	p := &proxy{name: name, store: table.NewStore()}
	cfg := fleet.Config{
		REST: config, Namespace: namespace, Pod: name, Store: p.store, Shares: p, Clock: clock.RealClock{},
		Metrics: telemetry.NewTable(prometheus.NewRegistry()), Log: telemetry.NewLogger(GinkgoWriter, nil).With("proxy", name),
	}
	if change != nil {
		change(&cfg)
	}
	p.breakers = breaker.New(breaker.Options{Self: name, Clock: wallClock{breaker.SystemClock(), cfg.Clock}})
	p.store.OnSwap(p.breakers.Apply)
	cfg.Breakers = p.breakers
	var err error
	p.Fleet, err = fleet.New(cfg)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	p.stop = func() { cancel(); <-done }
	DeferCleanup(p.stop)
	return p
}

// saturate makes the breaker of tower open, as two silent answers would.
func (p *proxy) saturate() {
	GinkgoHelper()
	for range 2 {
		permit, ok := p.breakers.Admit(tower, endpoint, breaker.Normal)
		Expect(ok).To(BeTrue())
		permit.Done(breaker.Result{Kind: breaker.Silent, Message: "no first token within 20s"})
	}
	Expect(p.tower()).To(Equal(breaker.Open))
}

func (p *proxy) tower() breaker.State { return p.breakers.View(tower, endpoint).State }

func (p *proxy) models() []string { return p.store.Load().Models() }

// report is the proxy's own report as the API server has it; empty where there is none.
func (p *proxy) report(ctx context.Context) *v1alpha1.ProxyReport {
	report := &v1alpha1.ProxyReport{}
	_ = admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.name}, report)
	return report
}

// publish writes the table as the manager does; shards limits it to the first ones.
func publish(ctx context.Context, shards int, models ...string) {
	GinkgoHelper()
	split := tableOf(models...).Split()
	for i := range shards {
		data, _, err := split[i].Encode(nil)
		Expect(err).NotTo(HaveOccurred())
		put(ctx, i, data)
	}
}

// put writes one shard.
func put(ctx context.Context, index int, data []byte) {
	GinkgoHelper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: table.ShardName(index)},
		Type:       "spillway.dev/table",
		Data:       map[string][]byte{table.ShardKey: data},
	}
	if err := admin.Update(ctx, secret); client.IgnoreNotFound(err) != nil {
		Expect(err).NotTo(HaveOccurred())
	} else if err != nil {
		Expect(admin.Create(ctx, secret)).To(Succeed())
	}
}

// tableOf has one route per model, each with the tower alone.
func tableOf(models ...string) *table.Table {
	var routes []*table.Route
	for _, model := range models {
		routes = append(routes, &table.Route{Namespace: "ns", Name: model, Model: model, Chain: []table.Backend{{
			ID: tower, Name: "tower", BaseURL: "http://tower.example/v1", Model: "m", Probe: table.ProbeSynthetic,
			Failure:    table.Failure{Threshold: 5, Cooldown: 30 * time.Second},
			Saturation: table.Saturation{Threshold: 2, Cooldown: 15 * time.Minute, SlowAfter: 20 * time.Second},
		}}})
	}
	return table.New(routes)
}

// shardOf is the shard that holds the route of a model.
func shardOf(model string) int { return table.ShardOf("ns/" + model) }
