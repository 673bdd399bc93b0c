package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/controller"
	"github.com/spillway-dev/spillway/test/bench/proc"
	"github.com/spillway-dev/spillway/test/stack"
)

// snapshot is what the manager compiles, the salt included, so that the ids of backends are those of the table.
func (b *bench) snapshot(ctx context.Context) (compiler.Snapshot, error) {
	s := compiler.Snapshot{Routes: b.routes.all(), Secrets: map[types.NamespacedName]*corev1.Secret{}}
	salt := &corev1.Secret{}
	if err := b.api.Get(ctx, types.NamespacedName{Namespace: stack.Namespace, Name: controller.SaltSecretName}, salt); err != nil {
		return s, err
	}
	s.Salt = salt.Data[controller.SaltKey]
	secrets, pins := &corev1.SecretList{}, &v1alpha1.BackendPinList{}
	if err := b.api.List(ctx, pins); err != nil {
		return s, err
	}
	for i := range pins.Items {
		s.Pins = append(s.Pins, &pins.Items[i])
	}
	if err := b.api.List(ctx, secrets); err != nil {
		return s, err
	}
	for i := range secrets.Items {
		s.Secrets[client.ObjectKeyFromObject(&secrets.Items[i])] = &secrets.Items[i]
	}
	return s, nil
}

// compile compiles everything in this process, from objects that are here: nothing of them known, and as the manager does it after
// its first time.
func (b *bench) compile(ctx context.Context) error {
	s, err := b.snapshot(ctx)
	if err != nil {
		return err
	}
	last := compiler.Compile(s, time.Now())
	median := func(compile func(now time.Time)) float64 {
		var took []time.Duration
		for range 7 {
			runtime.GC()
			began := time.Now()
			compile(began)
			took = append(took, time.Since(began))
		}
		return milliseconds(quantile(took, 0.5))
	}
	b.results[keyCompile] = median(func(now time.Time) { compiler.Compile(s, now) })
	b.results[keyCompileKnown] = median(func(now time.Time) { compiler.Recompile(&last, s, now) })
	return nil
}

// histogram is the part of a Prometheus histogram that is read here.
type histogram struct{ sum, count float64 }

// compiled reads how long the manager says that it compiled.
func (b *bench) compiled(ctx context.Context) (h histogram, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.metrics+"/metrics", nil)
	if err != nil {
		return h, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return h, err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "spillway_compile_duration_seconds_sum":
			h.sum = number
		case "spillway_compile_duration_seconds_count":
			h.count = number
		}
	}
	if h.count == 0 {
		return h, fmt.Errorf("the manager tells no %s", "spillway_compile_duration_seconds")
	}
	return h, nil
}

// watchIdle looks at a control plane on which nothing happens.
func (b *bench) watchIdle(ctx context.Context) error {
	_, offset, err := b.stack.ReadAudit(0)
	if err != nil {
		return err
	}
	cpu, began := proc.CPU(b.stack.Manager.PID()), time.Now()
	if err := pause(ctx, b.idle); err != nil {
		return err
	}
	window := time.Since(began)
	b.results[keyIdleCPU] = 100 * (proc.CPU(b.stack.Manager.PID()) - cpu).Seconds() / window.Seconds()
	writes, _, err := b.stack.ReadAudit(offset)
	if err != nil {
		return err
	}
	reports, others := 0, map[string]int{}
	for i := range writes {
		w := &writes[i]
		switch own := strings.HasPrefix(w.User, "system:serviceaccount:"+stack.Namespace+":"); {
		case w.Resource == "proxyreports":
			reports++
		case own && w.Resource != "leases":
			others[w.Resource+"/"+w.Subresource]++
		}
	}
	b.results[keyIdleReports] = float64(reports) / float64(b.reports+len(b.stack.Proxies)) * time.Minute.Seconds() / window.Seconds()
	b.results[keyIdleOthers] = 0
	for _, n := range others {
		b.results[keyIdleOthers] += float64(n)
	}
	if len(others) > 0 {
		b.note("Other writes while idle: %v", others)
	}
	return nil
}

// burst has all simulated proxies say at one moment that the backend which every route shares with its namespace is
// saturated, and counts what the manager writes.
func (b *bench) burst(ctx context.Context) error {
	s, err := b.snapshot(ctx)
	if err != nil {
		return err
	}
	result := compiler.Compile(s, time.Now())
	var breakers []v1alpha1.BreakerReport
	for n := range namespaces {
		v := result.Routes[types.NamespacedName{Namespace: namespaceOf(n), Name: routeName(0)}]
		breakers = append(breakers, v1alpha1.BreakerReport{
			ID: string(v.Backend("hosted").ID), State: v1alpha1.BackendOpen, Reason: v1alpha1.BackendSaturated, Epoch: 1, Remaining: "15m",
			Message: "no first token within 30s",
		})
	}
	_, offset, err := b.stack.ReadAudit(0)
	if err != nil {
		return err
	}
	began := time.Now()
	b.fleet.say(breakers)
	err = b.routes.await(ctx, b.options.routes, func(r *v1alpha1.LLMRoute) bool {
		hosted := r.Status.Backends[len(r.Status.Backends)-1]
		return hosted.State == v1alpha1.BackendOpen && hosted.Proxies == fmt.Sprintf("%[1]d/%[1]d", b.reports+len(b.stack.Proxies))
	})
	if err != nil {
		return err
	}
	b.results[keyBurstTime] = time.Since(began).Seconds()
	if err := b.settled(ctx); err != nil {
		return err
	}
	writes, _, err := b.stack.ReadAudit(offset)
	if err != nil {
		return err
	}
	b.results[keyBurstRate], b.results[keyBurstWrites] = perSecond(writes)
	return nil
}

// perSecond returns the most status writes of one route within any second, and how many one route had on average.
func perSecond(writes []stack.Write) (most, average float64) {
	byRoute := map[string][]time.Time{}
	for i := range writes {
		if w := &writes[i]; w.Resource == "llmroutes" && w.Subresource == "status" && w.Code < 300 {
			byRoute[w.Key()] = append(byRoute[w.Key()], w.At)
			average++
		}
	}
	for _, times := range byRoute {
		for i := range times {
			n := 1
			// When a write was done is known, not when it was begun, so that much less than a second counts as one.
			for n < len(times)-i && times[i+n].Sub(times[i]) < 900*time.Millisecond {
				n++
			}
			most = max(most, float64(n))
		}
	}
	return most, average / max(float64(len(byRoute)), 1)
}

func (b *bench) memory(context.Context) error {
	const mebibyte = 1 << 20
	b.results[keyManagerMemory] = float64(proc.Memory(b.stack.Manager.PID())) / mebibyte
	for _, p := range b.stack.Proxies {
		b.results[keyProxyMemory] = max(b.results[keyProxyMemory], float64(proc.Memory(p.PID()))/mebibyte)
	}
	b.fleet.mu.Lock()
	defer b.fleet.mu.Unlock()
	return b.fleet.failed
}
