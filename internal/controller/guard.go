package controller

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// guardEvery is how often the API server is asked how far it has come, and guardRetry how soon it is asked again while it does
	// not answer: after an outage is when its data may be others.
	guardEvery = 10 * time.Second
	guardRetry = time.Second
	// guardTimeout bounds one question.
	guardTimeout = 5 * time.Second
)

// guard ends the manager when the API server has gone back in time: its etcd was restored from a backup, or has lost its data.
// The watches of our informers would then stay silent until the server has caught up with what they have seen, and all that we
// hold by resourceVersion would be taken for newer than what is stored. A manager that starts knows nothing that could be wrong.
// It runs on every replica.
type guard struct {
	reader    client.Reader // past the cache
	namespace string
	clock     clock.Clock
	// heard is told whether a question was answered.
	heard func(answered bool)

	furthest string // resourceVersion; empty before the first answer
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (g *guard) NeedLeaderElection() bool { return false }

// Start asks until ctx ends, or returns an error that says how far the server went back.
func (g *guard) Start(ctx context.Context) error {
	for {
		wait := guardEvery
		version, err := g.ask(ctx)
		g.heard(err == nil)
		switch {
		case err != nil: // informers and writers tell of an outage
			wait = guardRetry
		case g.isPast(version):
			return fmt.Errorf("the API server is at resourceVersion %s and was at %s before: its data was restored or lost; ending, to be started again from what there is",
				version, g.furthest)
		default:
			g.furthest = version
		}
		if !pause(ctx, g.clock, wait) {
			return nil
		}
	}
}

// isPast says whether a version lies before one that was seen. Of those that cannot be compared nobody knows.
func (g *guard) isPast(version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, g.furthest)
	return err == nil && order < 0
}

// ask returns how far the data has come. The resourceVersion of a list that asks for none is that of all data at the time, so it
// never goes back, whatever replica of the API server answers.
func (g *guard) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk("ProxyReportList"))
	err := g.reader.List(ctx, list, client.InNamespace(g.namespace), client.Limit(1))
	return list.ResourceVersion, err
}
