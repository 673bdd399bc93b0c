package controller

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const own = "spillway-system"

// secretStore is an API server that stores Secrets, notes what is written, and fails when it is told to.
type secretStore struct {
	client.Client
	stored  map[string]*corev1.Secret
	version int
	writes  []string // "create NAME", "update NAME" or "patch NAME", those that succeeded
	reads   int      // of Secrets

	mu   sync.Mutex       // guards fail where a test and what it tests only share a clock
	fail map[string]error // by verb, or verb and name; "get" concerns Secrets alone
}

func newSecretStore() *secretStore {
	return &secretStore{stored: map[string]*corev1.Secret{}, fail: map[string]error{}}
}

var secrets = schema.GroupResource{Resource: "secrets"}

func (s *secretStore) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if into.GetObjectKind().GroupVersionKind() == deploymentKind {
		into.SetUID("deployment-1")
		return nil
	}
	s.reads++
	stored := s.stored[key.Name]
	switch {
	case s.failure("get") != nil:
		return s.failure("get")
	case stored == nil || key.Namespace != own:
		return apierrors.NewNotFound(secrets, key.Name)
	}
	stored.DeepCopyInto(into.(*corev1.Secret))
	return nil
}

func (s *secretStore) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	if s.stored[object.GetName()] != nil {
		return apierrors.NewAlreadyExists(secrets, object.GetName())
	}
	return s.write("create", object.(*corev1.Secret))
}

func (s *secretStore) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	switch stored := s.stored[object.GetName()]; {
	case stored == nil:
		return apierrors.NewNotFound(secrets, object.GetName())
	case stored.ResourceVersion != object.GetResourceVersion():
		return apierrors.NewConflict(secrets, object.GetName(), errors.New("it was changed"))
	}
	return s.write("update", object.(*corev1.Secret))
}

// Patch applies a merge patch of metadata.
func (s *secretStore) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	next := s.stored[object.GetName()].DeepCopy()
	if err := json.Unmarshal(data, next); err != nil {
		return err
	}
	return s.write("patch", next)
}

func (s *secretStore) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	delete(s.stored, object.GetName())
	return nil
}

func (s *secretStore) write(verb string, secret *corev1.Secret) error {
	for _, key := range []string{verb, verb + " " + secret.Name} {
		if err := s.failure(key); err != nil {
			return err
		}
	}
	if secret.Namespace != own {
		return apierrors.NewForbidden(secrets, secret.Name, errors.New("it is in another namespace"))
	}
	s.version++
	secret.ResourceVersion = strconv.Itoa(s.version)
	s.stored[secret.Name] = secret.DeepCopy()
	s.writes = append(s.writes, verb+" "+secret.Name)
	return nil
}

func (s *secretStore) failure(of string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail[of]
}

// recover ends all failures.
func (s *secretStore) recover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.fail)
}

// written returns the writes since the last call.
func (s *secretStore) written() []string {
	w := s.writes
	s.writes = nil
	return w
}

func (s *secretStore) secret(name string) *corev1.Secret { return s.stored[name].DeepCopy() }

func (s *secretStore) owner() *owner {
	return newOwner(Options{Namespace: own, OwnerDeployment: "spillway-manager", Clock: clocktesting.NewFakeClock(time.Unix(0, 0))}, s)
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
