package controller

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/status"
	"github.com/spillway-dev/spillway/internal/table"
)

// Waits between tries to publish what could not be written.
const (
	firstRetry   = 200 * time.Millisecond
	longestRetry = 5 * time.Second
)

// publisher writes the shards that differ from what is stored. It runs on the leader alone.
type publisher struct {
	writer    client.Writer
	reader    client.Reader // past the cache
	namespace string
	owner     *owner
	compiling *compiling
	metrics   Metrics
	ledger    *ledger
	wake      signal

	published compiler.ShardSet
	disowned  [table.Shards]bool // published, but not ours to go with us
	fixed     [table.Shards]bool // somebody made it immutable, or of another type, so that it cannot be updated
	done      *compilation       // what was last published whole

	// behind is what proxies go by while it cannot be replaced; nil while what is compiled is published at once.
	behind   atomic.Pointer[compiler.ShardSet]
	onBehind func() // called when that is another one

	loaded atomic.Bool // what is stored is in the ledger
	onLoad func()      // called when it is

	mu     sync.Mutex
	stored [table.Shards]string // resourceVersion that we know; empty where the Secret is not there
	seen   map[int]bool         // shards that somebody else changed or deleted
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (p *publisher) NeedLeaderElection() bool { return true }

// Start publishes until ctx ends, beginning with a comparison of all that is stored.
func (p *publisher) Start(ctx context.Context) error {
	log := logf.FromContext(ctx).WithName("publisher")
	wait := firstRetry
	for loaded := false; ctx.Err() == nil; {
		var err error
		if !loaded {
			err = p.loadAll(ctx)
			loaded = err == nil
		}
		if err == nil {
			err = p.publish(ctx)
		}
		var retry <-chan time.Time
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			p.metrics.PublishFailed()
			p.fallBehind(loaded && wait > firstRetry) // once is mostly a conflict
			log.Info("table not published, trying again", "cause", err.Error(), "in", wait.String())
			retry, wait = time.After(wait), min(2*wait, longestRetry)
		default:
			wait = firstRetry
			p.fallBehind(false)
		}
		select {
		case <-ctx.Done():
		case <-retry:
		case <-p.wake:
		}
	}
	return nil
}

// fallBehind notes whether what is compiled stays unpublished, so that status speaks of what is.
func (p *publisher) fallBehind(behind bool) {
	var now *compiler.ShardSet
	if behind {
		published := p.published
		now = &published
	}
	was := p.behind.Swap(now)
	if (was == nil) != (now == nil) || was != nil && len(compiler.WriteOrder(was, now)) > 0 {
		p.onBehind()
	}
}

// inForce is what proxies go by: what is compiled, or what is published where the two stay apart.
func (p *publisher) inForce(compiled *compilation) (set *compiler.ShardSet, behind bool) {
	if published := p.behind.Load(); published != nil {
		return published, true
	}
	return compiled.shards, false
}

// loadAll reads what is stored, so that a new leader writes only what differs.
func (p *publisher) loadAll(ctx context.Context) error {
	for i := range table.Shards {
		if err := p.load(ctx, i); err != nil {
			return err
		}
	}
	published := p.published
	p.compiling.rebase(&published)
	p.loaded.Store(true)
	p.onLoad()
	return nil
}

// load reads one shard. One that is missing, damaged or of another schema counts as unknown and is written anew.
func (p *publisher) load(ctx context.Context, index int) error {
	secret := &corev1.Secret{}
	err := p.reader.Get(ctx, types.NamespacedName{Namespace: p.namespace, Name: table.ShardName(index)}, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read shard %s: %s", table.ShardName(index), reasonOf(err))
	}
	p.done, p.published[index] = nil, compiler.EncodedShard{}
	p.know(index, secret.ResourceVersion)
	data := secret.Data[table.ShardKey]
	if shard, revision, err := table.Decode(data, nil); err == nil && secret.Type == table.ShardSecretType {
		p.published[index] = compiler.EncodedShard{Shard: shard, Data: data, Revision: revision}
		p.ledger.publish(index, &p.published[index])
	}
	owners, err := p.owner.references(ctx)
	if err != nil {
		return err
	}
	p.disowned[index] = !owns(owners, secret.OwnerReferences)
	p.fixed[index] = secret.ResourceVersion != "" && (ptr.Deref(secret.Immutable, false) || secret.Type != table.ShardSecretType)
	return nil
}

// know notes the resourceVersion of a shard; empty where it is not there.
func (p *publisher) know(index int, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stored[index] = version
}

// noticed is told by the informer of each event of a shard, with its version, empty when it is gone. Our own writes and
// news from before them are nothing new.
func (p *publisher) noticed(index int, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.stored[index]; version == known || version != "" && known != "" && older(version, known) {
		return
	}
	p.seen[index] = true
	p.wake.raise()
}

// doubtAll has every shard looked at again.
func (p *publisher) doubtAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range table.Shards {
		p.seen[i] = true
	}
}

// review looks again at the shards that somebody else changed or deleted.
func (p *publisher) review(ctx context.Context) error {
	p.mu.Lock()
	seen := p.seen
	p.seen = map[int]bool{}
	p.mu.Unlock()
	for index := range seen {
		if err := p.load(ctx, index); err != nil {
			p.mu.Lock()
			maps.Copy(p.seen, seen)
			p.mu.Unlock()
			return err
		}
	}
	return nil
}

// publish writes the shards that differ, in the order that no model is ever nowhere.
func (p *publisher) publish(ctx context.Context) error {
	if err := p.review(ctx); err != nil {
		return err
	}
	next := p.compiling.latest.Load()
	if next == nil || next == p.done {
		return nil
	}
	var failed error
	var missing []*table.Route // of shards that could not be written
	for _, i := range compiler.WriteOrder(p.kept(), next.shards) {
		if takesAway(&p.published[i], &next.shards[i], missing) {
			continue // a model moves from here to a shard that is not written yet
		}
		if err := p.write(ctx, i, &next.shards[i]); err != nil {
			failed = err
			missing = append(missing, next.shards[i].Shard.Routes...)
		}
	}
	if failed == nil {
		p.done = next
	}
	return failed
}

// kept is what is published and need not be written again if it is the same.
func (p *publisher) kept() *compiler.ShardSet {
	kept := p.published
	for i, disowned := range p.disowned {
		if disowned {
			kept[i].Revision = ""
		}
	}
	return &kept
}

// takesAway says whether writing next in place of was would drop a model that one of the missing routes is to serve.
func takesAway(was, next *compiler.EncodedShard, missing []*table.Route) bool {
	if was.Shard == nil || len(missing) == 0 {
		return false
	}
	keeps := map[string]bool{}
	for _, r := range next.Shard.Routes {
		keeps[r.Model] = true
	}
	drops := map[string]bool{}
	for _, r := range was.Shard.Routes {
		drops[r.Model] = !keeps[r.Model]
	}
	for _, r := range missing {
		if drops[r.Model] {
			return true
		}
	}
	return false
}

// write stores one shard. A conflict is news: the shard is read again and written at the next try.
func (p *publisher) write(ctx context.Context, index int, shard *compiler.EncodedShard) error {
	if shard.Shard == nil {
		return nil // nothing is known that could be written
	}
	p.mu.Lock()
	known := p.stored[index]
	p.mu.Unlock()
	owners, err := p.owner.references(ctx)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.namespace, Name: table.ShardName(index), ResourceVersion: known, Labels: managedLabels(), OwnerReferences: owners,
		},
		Type: table.ShardSecretType,
		Data: map[string][]byte{table.ShardKey: shard.Data},
	}
	err = p.store(ctx, secret, p.fixed[index])
	if err != nil {
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
			if err := p.load(ctx, index); err != nil {
				return err
			}
			if apierrors.IsNotFound(err) {
				p.doubtAll() // nobody told us that it is gone, so others may be, too
			}
		}
		return fmt.Errorf("write shard %s: %s", table.ShardName(index), reasonOf(err))
	}
	p.know(index, secret.ResourceVersion)
	p.published[index], p.disowned[index], p.fixed[index] = *shard, false, false
	p.ledger.publish(index, shard)
	return nil
}

// store creates or updates a shard. One that cannot be updated is made anew: proxies serve on while it is not there.
func (p *publisher) store(ctx context.Context, secret *corev1.Secret, fixed bool) error {
	known := secret.ResourceVersion
	if fixed {
		if err := p.writer.Delete(ctx, secret.DeepCopy(), client.Preconditions{ResourceVersion: &known}); err != nil {
			return err
		}
		secret.ResourceVersion = ""
	}
	if secret.ResourceVersion == "" {
		return p.writer.Create(ctx, secret)
	}
	return p.writer.Update(ctx, secret)
}

// reasonOf says what an API call failed of without its text, which may quote what was sent: a shard holds credentials.
func reasonOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return fmt.Sprintf("no answer from the API server (%T)", err)
}

// ledger is a status.Ledger for several goroutines.
type ledger struct {
	mu    sync.Mutex
	l     status.Ledger
	fleet func() *status.Fleet
	// fresh is told of the routes whose status may be another now that something was published.
	fresh func([]types.NamespacedName)
}

// publish notes what was published. Mostly that concerns the routes that are new in it; all of the shard where a proxy was faster
// than our answer from the API server, or has kept a revision for so long that it is forgotten now.
func (l *ledger) publish(index int, shard *compiler.EncodedShard) {
	l.mu.Lock()
	fresh, forgotten := l.l.Publish(index, shard.Revision, shard.Shard.Routes)
	l.mu.Unlock()
	if l.fleet().Serving(index, map[table.Revision]bool{shard.Revision: true, forgotten: forgotten != ""}) > 0 {
		fresh = fresh[:0]
		for _, r := range shard.Shard.Routes {
			fresh = append(fresh, r.Key())
		}
	}
	l.fresh(namesOf(fresh))
}

// concerned are the routes whose status depends on whether a proxy is before or after a move.
func (l *ledger) concerned(m status.Move) []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	return namesOf(l.l.Concerned(m))
}

func (l *ledger) holding(route *storedRoute) map[table.Revision]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.l.Holding(route.Namespace+"/"+route.Name, string(route.UID), route.Generation)
}

// namesOf takes keys of routes apart.
func namesOf(keys []string) []types.NamespacedName {
	names := make([]types.NamespacedName, 0, len(keys))
	for _, key := range keys {
		namespace, name, _ := strings.Cut(key, "/")
		names = append(names, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return names
}
