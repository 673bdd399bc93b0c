package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

var (
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	secretKind     = corev1.SchemeGroupVersion.WithKind("Secret")
	configMapKind  = corev1.SchemeGroupVersion.WithKind("ConfigMap")
)

// ownerHolds is how long an answer about the owner holds.
const ownerHolds = time.Minute

// errOwnerGone holds up writes while our Deployment is being deleted, and the garbage collector with it deletes what is
// written: what came now, without an owner, would stay behind. A manager that lives on, longer than the grace period of its
// Pod, was orphaned, and writes again.
var errOwnerGone = errors.New("the manager's Deployment is gone, so this manager should end")

// owner is the manager's own Deployment. What the manager writes in its namespace belongs to it, so that it goes with the
// Deployment and an uninstall leaves nothing behind. An owner without a name owns nothing.
type owner struct {
	reader client.Reader // past the cache
	key    types.NamespacedName
	clock  clock.PassiveClock

	mu    sync.Mutex
	known []metav1.OwnerReference
	gone  error
	asked time.Time
}

func newOwner(o Options, reader client.Reader) *owner {
	return &owner{reader: reader, key: types.NamespacedName{Namespace: o.Namespace, Name: o.OwnerDeployment}, clock: o.Clock}
}

// references returns what goes into the metadata of an object that is owned: one reference, or none where there never was
// such a Deployment or it may not be read, which is logged. To serve matters more than to leave no trace.
func (o *owner) references(ctx context.Context) ([]metav1.OwnerReference, error) {
	if o.key.Name == "" {
		return nil, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.asked.IsZero() && o.clock.Since(o.asked) < ownerHolds {
		return o.known, o.gone
	}
	deployment := metadataOf(deploymentKind)
	err := o.reader.Get(ctx, o.key, deployment)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("read Deployment %s: %s", o.key, reasonOf(err))
	}
	had := o.known != nil
	o.known, o.gone, o.asked = nil, nil, o.clock.Now()
	switch {
	case err == nil:
		o.known = []metav1.OwnerReference{{APIVersion: deploymentKind.GroupVersion().String(), Kind: deploymentKind.Kind, Name: o.key.Name, UID: deployment.UID}}
	case had:
		o.gone = errOwnerGone
	default:
		logf.FromContext(ctx).WithName("owner").Info("the manager's Deployment cannot be read; an uninstall will leave behind what the manager writes",
			"deployment", o.key.String(), "cause", reasonOf(err))
	}
	return o.known, o.gone
}

// owns says whether an object with these owners needs no change.
func owns(want, have []metav1.OwnerReference) bool {
	return want == nil || slices.EqualFunc(want, have, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID })
}

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(kind)
	return m
}
