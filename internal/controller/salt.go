package controller

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// The salt of backend ids lives in this Secret of the manager's namespace. It is created once and never replaced: another
// salt would make every backend a new one, and all that the breakers know would be lost. So it is immutable: the manager may set
// who owns it, and no more.
const (
	SaltSecretName = "spillway-salt"
	SaltKey        = "salt"
	saltBytes      = 32
)

// salt returns the salt that is stored. Where there is none it stores the one that is in use, or a new one. Of several
// replicas that try, one creates it and all read the same. A Secret without a usable salt is an error: somebody has to look
// at it.
func salt(ctx context.Context, writer client.Writer, reader client.Reader, owner *owner, inUse []byte) ([]byte, error) {
	key := types.NamespacedName{Namespace: owner.key.Namespace, Name: SaltSecretName}
	stored := &corev1.Secret{}
	err := reader.Get(ctx, key, stored)
	if apierrors.IsNotFound(err) {
		if inUse == nil {
			inUse = make([]byte, saltBytes)
			rand.Read(inUse) // never fails
		}
		owners, unknown := owner.references(ctx)
		if unknown != nil {
			return nil, unknown
		}
		created := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: managedLabels(), OwnerReferences: owners},
			Immutable:  ptr.To(true),
			Data:       map[string][]byte{SaltKey: inUse},
		}
		if err := writer.Create(ctx, created); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create secret %s: %w", SaltSecretName, err)
		}
		err = reader.Get(ctx, key, stored)
	}
	if err != nil {
		return nil, fmt.Errorf("read secret %s: %w", SaltSecretName, err)
	}
	if err := adopt(ctx, writer, owner, stored); err != nil {
		logf.FromContext(ctx).WithName("owner").Info("the salt does not go with the manager's Deployment", "cause", err.Error())
	}
	if len(stored.Data[SaltKey]) < saltBytes {
		return nil, fmt.Errorf("secret %s has no %q of at least %d bytes; restore it, or delete it to give every backend a new identity",
			SaltSecretName, SaltKey, saltBytes)
	}
	return stored.Data[SaltKey], nil
}

// adopt sets the owner of an object that was there before us.
func adopt(ctx context.Context, writer client.Writer, owner *owner, object client.Object) error {
	owners, err := owner.references(ctx)
	if err != nil || owns(owners, object.GetOwnerReferences()) {
		return err
	}
	patch := metadataOf(secretKind)
	patch.SetNamespace(object.GetNamespace())
	patch.SetName(object.GetName())
	before := patch.DeepCopy()
	patch.SetOwnerReferences(owners)
	if err := writer.Patch(ctx, patch, client.MergeFrom(before)); err != nil {
		return errors.New(reasonOf(err))
	}
	return nil
}

// managedLabels mark what the manager writes.
func managedLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "spillway", "app.kubernetes.io/part-of": "spillway"}
}
