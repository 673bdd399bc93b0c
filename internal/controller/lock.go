package controller

import (
	"context"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lockTimeout is half of what controller-runtime lets a leader try to renew its lease, so that one request that hangs does
// not cost the lead.
const lockTimeout = 5 * time.Second

// newLock makes the lock on the lease. It is that of client-go, apart from who owns the lease; which replica leads is said by
// the lease and the log, not by Events.
func newLock(cluster *rest.Config, o Options) (resourcelock.Interface, error) {
	cluster = rest.AddUserAgent(cluster, "leader-election")
	cluster.Timeout = lockTimeout
	leases, err := coordinationv1client.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("make a client for leases: %w", err)
	}
	reader, err := client.New(cluster, client.Options{Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("make a client for the manager's Deployment: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this replica: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: LeaseName},
		Client:     ownedLeases{leases, newOwner(o, reader)},
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		Labels:     managedLabels(),
	}, nil
}

// ownedLeases writes leases that go with the manager's Deployment.
type ownedLeases struct {
	coordinationv1client.LeasesGetter
	owner *owner
}

// Leases implements coordinationv1client.LeasesGetter.
func (l ownedLeases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return leaseWriter{l.LeasesGetter.Leases(namespace), l.owner}
}

type leaseWriter struct {
	coordinationv1client.LeaseInterface
	owner *owner
}

// Create makes no lease without its owner.
func (w leaseWriter) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	owners, err := w.owner.references(ctx)
	if err != nil {
		return nil, err
	}
	lease.OwnerReferences = owners
	return w.LeaseInterface.Create(ctx, lease, o)
}

// Update renews a lease in any case: who cannot say who owns it leads all the same.
func (w leaseWriter) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if owners, err := w.owner.references(ctx); err == nil && !owns(owners, lease.OwnerReferences) {
		lease.OwnerReferences = owners
	}
	return w.LeaseInterface.Update(ctx, lease, o)
}
