package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/status"
	"github.com/spillway-dev/spillway/internal/table"
)

// failures counts the tries that did not succeed.
type failures struct {
	noMetrics
	n atomic.Int32
}

func (f *failures) PublishFailed() { f.n.Add(1) }

func newPublisher(s *secretStore) *publisher {
	p := &publisher{
		writer: s, reader: s, namespace: own, owner: s.owner(), compiling: &compiling{world: newWorld()}, metrics: &failures{},
		wake: newSignal(), seen: map[int]bool{}, onLoad: func() {}, onBehind: func() {},
	}
	p.ledger = &ledger{fleet: func() *status.Fleet { return nil }, fresh: func([]types.NamespacedName) {}}
	return p
}

// compiled makes the table of some routes the one that is to be published.
func (p *publisher) compiled(routes ...*v1alpha1.LLMRoute) {
	result := compiler.Compile(compiler.Snapshot{Routes: routes}, time.Unix(0, 0))
	p.compiling.latest.Store(&compilation{Result: result, shards: result.Shards(&p.published)})
}

func routeTo(name, model string) *v1alpha1.LLMRoute {
	r := &v1alpha1.LLMRoute{Spec: v1alpha1.LLMRouteSpec{Model: model, Chain: []v1alpha1.Backend{{Name: "tower", URL: "http://tower.lan"}}}}
	r.Namespace, r.Name, r.UID, r.Generation = "team", name, types.UID("uid-"+name), 1
	return r
}

func shardOf(name string) string { return table.ShardName(table.ShardOf("team/" + name)) }

// inTwoShards returns the names of two routes that lie in different shards, the one that is written first in the lower.
func inTwoShards() (lower, higher string) {
	for i := 1; ; i++ {
		a, b := "r0", fmt.Sprintf("r%d", i)
		switch {
		case shardOf(a) < shardOf(b):
			return a, b
		case shardOf(b) < shardOf(a):
			return b, a
		}
	}
}

func TestAllShardsAreWrittenOnceAndThenWhatDiffers(t *testing.T) {
	s := newSecretStore()
	p := newPublisher(s)
	loads := 0
	p.onLoad = func() { loads++ }
	must(t, p.loadAll(t.Context()), p.publish(t.Context()))
	if got := s.written(); len(got) != 0 || loads != 1 || !p.loaded.Load() {
		t.Errorf("before a compile %q was written; loaded %d times", got, loads)
	}
	p.compiled(routeTo("r0", "m"))
	must(t, p.publish(t.Context()))
	if got := s.written(); len(got) != table.Shards || got[0] != "create "+table.ShardName(0) {
		t.Errorf("%d writes, want each shard created, also the empty ones", len(got))
	}
	secret := s.secret(shardOf("r0"))
	shard, _, err := table.Decode(secret.Data[table.ShardKey], nil)
	if err != nil || len(shard.Routes) != 1 || shard.Routes[0].Model != "m" || secret.Type != table.ShardSecretType {
		t.Errorf("stored is %+v of type %s: %v", shard, secret.Type, err)
	}
	wantOwner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "spillway-manager", UID: "deployment-1"}}
	if diff := cmp.Diff(wantOwner, secret.OwnerReferences); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(managedLabels(), secret.Labels); diff != "" || len(secret.Labels) != 2 {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	reads := s.reads
	must(t, p.publish(t.Context()))
	if got := s.written(); len(got) != 0 || s.reads != reads {
		t.Errorf("nothing is new, and %q was written and %d Secrets read", got, s.reads-reads)
	}
	p.compiled(routeTo("r0", "n"))
	must(t, p.publish(t.Context()))
	if diff := cmp.Diff([]string{"update " + shardOf("r0")}, s.written()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	p.compiled(routeTo("r0", "m"))
	must(t, p.publish(t.Context()))
	if diff := cmp.Diff([]string{"update " + shardOf("r0")}, s.written()); diff != "" {
		t.Errorf("writes of what was stored before (-want +got):\n%s", diff)
	}
}

func TestANewLeaderWritesOnlyWhatDiffers(t *testing.T) {
	damage := map[string]struct {
		change  func(*secretStore, *corev1.Secret)
		written bool
	}{
		"nothing":                       {func(*secretStore, *corev1.Secret) {}, false},
		"a shard is damaged":            {func(_ *secretStore, s *corev1.Secret) { s.Data[table.ShardKey] = []byte("damaged") }, true},
		"a shard is of no owner":        {func(_ *secretStore, s *corev1.Secret) { s.OwnerReferences = nil }, true},
		"a shard is of nobody's schema": {func(_ *secretStore, s *corev1.Secret) { s.Data = nil }, true},
	}
	for name, tc := range damage {
		t.Run(name, func(t *testing.T) {
			s := newSecretStore()
			first := newPublisher(s)
			first.compiled(routeTo("r0", "m"))
			must(t, first.loadAll(t.Context()), first.publish(t.Context()))
			s.written()
			secret := s.secret(shardOf("r0"))
			before := secret.DeepCopy()
			tc.change(s, secret)
			if !cmp.Equal(before, secret) {
				must(t, s.Update(t.Context(), secret))
				s.written()
			}

			next := newPublisher(s)
			var fresh []types.NamespacedName
			next.ledger.fresh = func(keys []types.NamespacedName) { fresh = append(fresh, keys...) }
			must(t, next.loadAll(t.Context()))
			next.compiled(routeTo("r0", "m"))
			must(t, next.publish(t.Context()))
			var want []string
			if tc.written {
				want = []string{"update " + shardOf("r0")}
			}
			if diff := cmp.Diff(want, s.written()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if len(fresh) != 1 {
				t.Errorf("the ledger learned of %v, want the one route once", fresh)
			}
			route := &storedRoute{}
			route.Namespace, route.Name, route.UID, route.Generation = "team", "r0", "uid-r0", 1
			if len(next.ledger.holding(route)) != 1 {
				t.Error("nobody knows which revision holds the route")
			}
		})
	}
}

func TestWhatOthersDoToAShardIsUndone(t *testing.T) {
	gone := func(t *testing.T, s *secretStore, name string) { must(t, s.Delete(t.Context(), s.secret(name))) }
	a, b := inTwoShards()
	cases := map[string]struct {
		do   func(*testing.T, *secretStore, *publisher)
		want []string
	}{
		"one that is seen to go is made again": {func(t *testing.T, s *secretStore, p *publisher) {
			gone(t, s, shardOf(a))
			p.noticed(table.ShardOf("team/"+a), "")
		}, []string{"create " + shardOf(a)}},
		"one that somebody changed is written over": {func(t *testing.T, s *secretStore, p *publisher) {
			secret := s.secret(shardOf(a))
			secret.Data[table.ShardKey] = []byte("damaged")
			must(t, s.Update(t.Context(), secret))
			s.written()
			p.noticed(table.ShardOf("team/"+a), secret.ResourceVersion)
		}, []string{"update " + shardOf(a)}},
		"a change that nobody told of is met as a conflict, and written over": {func(t *testing.T, s *secretStore, p *publisher) {
			secret := s.secret(shardOf(a))
			secret.Data[table.ShardKey] = []byte("damaged")
			must(t, s.Update(t.Context(), secret))
			s.written()
			p.compiled(routeTo(a, "other"), routeTo(b, "n"))
			if err := p.publish(t.Context()); err == nil || !strings.HasSuffix(err.Error(), ": Conflict") {
				t.Errorf("error %v, want a conflict", err)
			}
		}, []string{"update " + shardOf(a)}},
		"one that went unseen makes us look at all": {func(t *testing.T, s *secretStore, p *publisher) {
			gone(t, s, shardOf(a))
			gone(t, s, shardOf(b))
			p.compiled(routeTo(a, "other"), routeTo(b, "n"))
			if err := p.publish(t.Context()); err == nil || !strings.HasSuffix(err.Error(), ": NotFound") {
				t.Errorf("error %v, want that it is not found", err)
			}
		}, []string{"create " + shardOf(a), "create " + shardOf(b)}},
		"what cannot be read is looked at later": {func(t *testing.T, s *secretStore, p *publisher) {
			gone(t, s, shardOf(a))
			p.noticed(table.ShardOf("team/"+a), "")
			s.fail["get"] = errors.New("secret words")
			if err := p.publish(t.Context()); err == nil || strings.Contains(err.Error(), "words") {
				t.Errorf("error %v, want one that quotes nothing", err)
			}
			delete(s.fail, "get")
		}, []string{"create " + shardOf(a)}},
		"one that somebody else was faster to make is read": {func(t *testing.T, s *secretStore, p *publisher) {
			secret := s.secret(shardOf(a))
			gone(t, s, shardOf(a))
			p.noticed(table.ShardOf("team/"+a), "")
			s.fail["create"] = apierrors.NewAlreadyExists(secrets, "x")
			if err := p.publish(t.Context()); err == nil {
				t.Error("no error, want that it is there already")
			}
			delete(s.fail, "create")
			secret.ResourceVersion = ""
			must(t, s.Create(t.Context(), secret))
			s.written()
			p.noticed(table.ShardOf("team/"+a), s.secret(shardOf(a)).ResourceVersion)
		}, nil},
		"an answer that did not come is asked for again": {func(t *testing.T, s *secretStore, p *publisher) {
			p.compiled(routeTo(a, "other"), routeTo(b, "n"))
			s.fail["update"] = errors.New("secret words")
			if err := p.publish(t.Context()); err == nil || strings.Contains(err.Error(), "words") {
				t.Errorf("error %v, want one that quotes nothing", err)
			}
			delete(s.fail, "update")
		}, []string{"update " + shardOf(a)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSecretStore()
			p := newPublisher(s)
			p.compiled(routeTo(a, "m"), routeTo(b, "n"))
			must(t, p.loadAll(t.Context()), p.publish(t.Context()))
			s.written()
			tc.do(t, s, p)
			s.written()
			must(t, p.publish(t.Context()))
			if diff := cmp.Diff(tc.want, s.written()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			shard, _, err := table.Decode(s.secret(shardOf(a)).Data[table.ShardKey], nil)
			if err != nil || len(shard.Routes) != 1 {
				t.Errorf("afterwards %+v is stored: %v", shard, err)
			}
		})
	}
}

func TestAModelThatMovesIsNeverNowhere(t *testing.T) {
	a, b := inTwoShards()
	s := newSecretStore()
	p := newPublisher(s)
	p.compiled(routeTo(a, "m"))
	must(t, p.loadAll(t.Context()), p.publish(t.Context()))
	s.written()
	p.compiled(routeTo(b, "m"))
	s.fail["update "+shardOf(b)] = errors.New("no answer")
	if err := p.publish(t.Context()); err == nil {
		t.Error("no error, want that of the shard that could not be written")
	}
	if got := s.written(); len(got) > 0 {
		t.Errorf("%q was written while the shard that gains the model is not", got)
	}
	clear(s.fail)
	must(t, p.publish(t.Context()))
	if diff := cmp.Diff([]string{"update " + shardOf(b), "update " + shardOf(a)}, s.written()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestPublishingIsTriedAgainEverLaterAndAtOnceWhenItIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecretStore()
		p := newPublisher(s)
		p.compiled(routeTo("r0", "m"))
		s.fail["get"] = errors.New("no answer")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = p.Start(ctx) }()
		tries := p.metrics.(*failures)
		for i, at := range []time.Duration{0, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond, longestRetry, longestRetry} {
			time.Sleep(at)
			synctest.Wait()
			if tries.n.Load() != int32(i+1) {
				t.Fatalf("%d tries after %s more, want %d", tries.n.Load(), at, i+1)
			}
		}
		if _, behind := p.inForce(p.compiling.latest.Load()); behind {
			t.Error("what is published counts as in force before it is known")
		}
		s.recover()
		time.Sleep(longestRetry)
		synctest.Wait()
		if got := len(s.written()); got != table.Shards {
			t.Errorf("%d shards written when it can be done, want all", got)
		}
		p.compiled(routeTo("r0", "n"))
		p.wake.raise()
		synctest.Wait()
		if diff := cmp.Diff([]string{"update " + shardOf("r0")}, s.written()); diff != "" {
			t.Errorf("writes when it is woken (-want +got):\n%s", diff)
		}
		p.compiled(routeTo("r0", "o"))
		s.fail["update"] = errors.New("no answer")
		p.wake.raise()
		synctest.Wait()
		s.recover()
		time.Sleep(firstRetry)
		synctest.Wait()
		if got := s.written(); len(got) != 1 {
			t.Errorf("%q was written soon after a failure, want that the waits begin anew", got)
		}
	})
}
