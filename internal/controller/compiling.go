package controller

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/spillway-dev/spillway/internal/compiler"
)

const (
	// A compile starts when changes have paused for quiet, and at the latest after longestBurst.
	quiet        = 10 * time.Millisecond
	longestBurst = 40 * time.Millisecond
	// retryFetch is how soon a Secret that could not be read is read again; after fetchPatience the compile goes ahead
	// without it and tries again that seldom, so that one object that cannot be read holds nobody up for ever.
	retryFetch    = 500 * time.Millisecond
	fetchPatience = 5 * time.Second
	// retryRefused is how soon what we may not read is asked for again: nobody tells us of a permission.
	retryRefused = 30 * time.Second
)

// Metrics receives what the manager measures of itself.
type Metrics interface {
	// Compiled records one compilation; objects counts what went into it, by kind.
	Compiled(took time.Duration, objects map[string]int)
	// PublishFailed counts one try to publish the table that did not succeed.
	PublishFailed()
	// CRDSkew records how many fields of this release a served CRD lacks, and how many it has that this release does not know.
	CRDSkew(crd string, missing, unknown int)
}

// compiling turns changes of the world into compilations. It runs on every replica.
type compiling struct {
	world   *world
	fetcher *fetcher
	writer  client.Writer
	reader  client.Reader // past the cache
	owner   *owner
	options Options
	clock   clock.PassiveClock

	salt        []byte
	saltGone    atomic.Bool // somebody deleted the Secret that we had it from
	failedSince time.Time   // since when Secrets cannot be read; zero while all can

	latest atomic.Pointer[compilation]
	mu     sync.Mutex
	base   *compiler.ShardSet // what the next compile's shards are made relative to

	// compiled is called after each compilation, and then changed with the routes and pins whose status may differ.
	compiled func()
	changed  func(routes, pins []types.NamespacedName)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *compiling) NeedLeaderElection() bool { return false }

// Start compiles until ctx ends. The world must be complete.
func (c *compiling) Start(ctx context.Context) error {
	log := logf.FromContext(ctx).WithName("compiler")
	for {
		again, err := c.compile(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			log.Info("compile held up, trying again", "cause", err.Error())
		}
		retry := make(<-chan time.Time)
		if again > 0 {
			retry = time.After(again)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-retry:
		case <-c.world.dirty:
			if !c.world.dirty.settle(ctx, quiet, longestBurst) {
				return nil
			}
		}
	}
}

// compile makes one compilation of what is. Where it must be done again without a change it says after how long.
func (c *compiling) compile(ctx context.Context) (again time.Duration, err error) {
	if err = c.keepSalt(ctx); err != nil {
		return time.Second, err
	}
	snapshot, wanted := c.world.snapshot()
	if err = c.fetcher.fill(ctx, &snapshot, wanted); err == nil {
		c.failedSince = time.Time{}
	} else {
		err, again = errors.New("a Secret or ConfigMap that a route names could not be read: "+reasonOf(err)), retryFetch
		if c.failedSince.IsZero() {
			c.failedSince = c.clock.Now()
		}
		if c.clock.Since(c.failedSince) < fetchPatience {
			return again, err
		}
		again = fetchPatience
	}
	if len(snapshot.Forbidden) > 0 {
		again = sooner(again, retryRefused)
	}
	snapshot.Salt = c.salt
	snapshot.Options = compiler.Options{ClusterDomain: c.options.ClusterDomain, MaxPin: c.options.MaxPin}
	start := c.clock.Now()
	next := c.build(snapshot, start)
	c.options.Metrics.Compiled(c.clock.Since(start), map[string]int{
		string(compiler.KindRoute): len(next.Routes), string(compiler.KindPin): len(next.Pins),
		string(compiler.KindSecret): len(snapshot.Secrets), string(compiler.KindConfigMap): len(snapshot.ConfigMaps),
		string(compiler.KindService): len(snapshot.Services),
	})
	last := c.latest.Swap(next)
	c.compiled()
	c.changed(next.changedFrom(last))
	return sooner(again, untilEdge(next.Next, c.clock.Now())), err
}

// sooner returns the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// keepSalt reads the salt once, and puts it back where it is deleted.
func (c *compiling) keepSalt(ctx context.Context) error {
	if c.salt != nil && !c.saltGone.Load() {
		return nil
	}
	stored, err := salt(ctx, c.writer, c.reader, c.owner, c.salt)
	if err != nil {
		return err
	}
	c.salt = stored
	c.saltGone.Store(false)
	return nil
}

// build compiles a snapshot and indexes what comes of it.
func (c *compiling) build(s compiler.Snapshot, now time.Time) *compilation {
	var earlier *compiler.Result
	if last := c.latest.Load(); last != nil {
		earlier = &last.Result
	}
	result := compiler.Recompile(earlier, s, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	next := newCompilation(result, c.base)
	c.base = next.shards
	return next
}

// rebase makes the next compile relative to what a new leader found published.
func (c *compiling) rebase(published *compiler.ShardSet) {
	c.mu.Lock()
	c.base = published
	c.mu.Unlock()
	c.world.dirty.raise()
}
