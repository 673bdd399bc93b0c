package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// served is a discovery client that knows what is served; each asking takes the next answer, the last one stays.
type served struct {
	discovery.ServerResourcesInterface
	answers []answer
}

type answer struct {
	resources []string
	err       error
}

func (s *served) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	list := &metav1.APIResourceList{}
	for _, name := range a.resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, a.err
}

func TestTheManagerWaitsForItsCRDsAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []string{"llmroutes", "llmroutes/status", "backendpins", "proxyreports"}
		notFound := apierrors.NewNotFound(schema.GroupResource{}, "spillway.dev")
		s := &served{answers: []answer{{nil, errors.New("connection refused")}, {nil, notFound}, {all[:2], nil}, {all, nil}}}
		var said []string
		log := funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{})
		start := time.Now()
		if err := waitForCRDs(t.Context(), s, log); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 3*lookForCRDs || len(said) != 1 || !strings.Contains(said[0], "waiting for the API server") {
			t.Errorf("after %s it had said %q", took, said)
		}

		s.answers, said = []answer{{all[:2], nil}}, nil
		ctx, cancel := context.WithTimeout(t.Context(), sayCRDsEvery+time.Second)
		defer cancel()
		if err := waitForCRDs(ctx, s, log); err == nil {
			t.Error("it goes on without CRDs")
		}
		if want := `"missing"=["backendpins.spillway.dev" "proxyreports.spillway.dev"]`; len(said) != 2 || !strings.Contains(said[1], want) {
			t.Errorf("it said %q, want twice %s", said, want)
		}
	})
}
