package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

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

// namesakes is a reader of Secrets and ConfigMaps of any name, which fails where there are too many questions at a time.
type namesakes struct {
	client.Reader
	asking atomic.Int32
	most   atomic.Int32
}

func (r *namesakes) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for now := r.asking.Add(1); ; {
		if most := r.most.Load(); now <= most || r.most.CompareAndSwap(most, now) {
			break
		}
	}
	defer r.asking.Add(-1)
	switch o := into.(type) {
	case *corev1.Secret:
		o.Data = map[string][]byte{"is": []byte("Secret " + key.String())}
	case *corev1.ConfigMap:
		o.Data = map[string]string{"is": "ConfigMap " + key.String()}
	}
	return nil
}

func TestFetcherReadsEachByItsKindAndName(t *testing.T) {
	wanted, want := map[compiler.Reference]version{}, map[string]bool{}
	for _, kind := range []compiler.Kind{compiler.KindSecret, compiler.KindConfigMap} {
		for i := range 3 * fetchers {
			ref := compiler.Reference{Kind: kind, Namespace: "ns", Name: fmt.Sprintf("n%d", i)}
			wanted[ref] = version{}
			want[fmt.Sprintf("%s ns/%s", kind, ref.Name)] = true
		}
	}
	reader := &namesakes{}
	var snapshot compiler.Snapshot
	if err := newFetcher(reader).fill(t.Context(), &snapshot, wanted); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for key, o := range snapshot.Secrets {
		got[string(o.Data["is"])] = key.String() == strings.TrimPrefix(string(o.Data["is"]), "Secret ")
	}
	for key, o := range snapshot.ConfigMaps {
		got[o.Data["is"]] = key.String() == strings.TrimPrefix(o.Data["is"], "ConfigMap ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if most := reader.most.Load(); most > fetchers {
		t.Errorf("%d were read at a time, want %d at most", most, fetchers)
	}
}

func TestARefusedObjectIsToldOnceAndWithoutMore(t *testing.T) {
	var said []string
	ctx := logf.IntoContext(t.Context(), funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{}))
	ref := compiler.Reference{Kind: compiler.KindSecret, Namespace: "ns", Name: "tower"}
	f := newFetcher(&oneSecret{err: apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tower", errors.New("words"))})
	for range 2 {
		var snapshot compiler.Snapshot
		if err := f.fill(ctx, &snapshot, map[compiler.Reference]version{ref: {}}); err != nil || len(snapshot.Secrets) > 0 || !snapshot.Forbidden[ref] {
			t.Fatalf("read %v with error %v, forbidden are %v", snapshot.Secrets, err, snapshot.Forbidden)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], `"name"="tower"`) || strings.Contains(said[0], "words") {
		t.Errorf("it said %q, want once which object it is", said)
	}
}

func TestOlder(t *testing.T) {
	for _, tc := range []struct {
		version, than string
		want          bool
	}{{"7", "8", true}, {"8", "7", false}, {"7", "7", false}, {"10", "9", false}, {"x", "y", true}, {"x", "x", false}, {"", "7", true}} {
		if got := older(tc.version, tc.than); got != tc.want {
			t.Errorf("older(%q, %q) = %v, want %v", tc.version, tc.than, got, tc.want)
		}
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
