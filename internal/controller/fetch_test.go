package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/internal/compiler"
)

// oneSecret is a reader that knows one Secret and counts how often it is read.
type oneSecret struct {
	client.Reader
	uid     types.UID
	version string
	err     error
	reads   int
}

func (r *oneSecret) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r.reads++
	into.SetUID(r.uid)
	into.SetResourceVersion(r.version)
	return r.err
}

func TestFetcherReadsEachVersionOnce(t *testing.T) {
	ref := compiler.Reference{Kind: compiler.KindSecret, Namespace: "ns", Name: "tower"}
	resource := schema.GroupResource{Resource: "secrets"}
	type step struct {
		seen, stored string // versions that the informer saw and that the API server has; seen empty: not wanted
		err          error
		want         string // version in the snapshot; empty: absent
		wantReads    int
		wantFailed   bool
	}
	cases := map[string][]step{
		"the same version is read once":          {{"7", "7", nil, "7", 1, false}, {"7", "7", nil, "7", 1, false}},
		"a rotated one is read again":            {{"7", "7", nil, "7", 1, false}, {"8", "8", nil, "8", 2, false}},
		"news from before what was read is none": {{"7", "9", nil, "9", 1, false}, {"8", "9", nil, "9", 1, false}},
		"what nobody names is let go":            {{"7", "7", nil, "7", 1, false}, {"", "", nil, "", 1, false}, {"7", "7", nil, "7", 2, false}},
		"one that is gone is absent":             {{"7", "", apierrors.NewNotFound(resource, "tower"), "", 1, false}},
		"one that we may not read is absent":     {{"7", "", apierrors.NewForbidden(resource, "tower", nil), "", 1, false}},
		"the last good one stands in":            {{"7", "7", nil, "7", 1, false}, {"8", "", errors.New("no answer"), "7", 2, true}},
		"one that cannot be read is a failure":   {{"7", "", errors.New("no answer"), "", 1, true}},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			reader := &oneSecret{}
			f := newFetcher(reader)
			for i, s := range steps {
				reader.version, reader.err = s.stored, s.err
				wanted := map[compiler.Reference]version{}
				if s.seen != "" {
					wanted[ref] = version{resource: s.seen}
				}
				var snapshot compiler.Snapshot
				failed := f.fill(t.Context(), &snapshot, wanted) != nil
				got := ""
				for _, secret := range snapshot.Secrets {
					got = secret.ResourceVersion
				}
				if diff := cmp.Diff([]any{s.want, s.wantReads, s.wantFailed}, []any{got, reader.reads, failed}); diff != "" {
					t.Errorf("step %d: version, reads, failed (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestFetcherReadsARecreatedObjectAnew(t *testing.T) {
	ref := compiler.Reference{Kind: compiler.KindSecret, Namespace: "ns", Name: "tower"}
	reader := &oneSecret{uid: "first", version: "900"}
	f := newFetcher(reader)
	for i, stored := range []version{{"first", "900"}, {"second", "7"}, {"second", "7"}} {
		reader.uid, reader.version = stored.uid, stored.resource
		var snapshot compiler.Snapshot
		if err := f.fill(t.Context(), &snapshot, map[compiler.Reference]version{ref: stored}); err != nil {
			t.Fatal(err)
		}
		for _, secret := range snapshot.Secrets {
			if diff := cmp.Diff(stored, version{secret.UID, secret.ResourceVersion}, cmp.AllowUnexported(version{})); diff != "" {
				t.Errorf("step %d (-want +got):\n%s", i, diff)
			}
		}
	}
	if reader.reads != 2 {
		t.Errorf("read %d times, want each object once", reader.reads)
	}
}
