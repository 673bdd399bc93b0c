package plugin

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// now is a summer's evening; the person sits two hours east of Greenwich.
var (
	now  = time.Date(2026, 8, 13, 19, 15, 0, 0, time.UTC)
	zone = time.FixedZone("CEST", 2*60*60)
)

// rig is a terminal with a cluster behind it that holds objects and forgets nothing.
type rig struct {
	t   *testing.T
	cli *cli // of the last run
	env Env
	api client.WithWatch
	in  *bytes.Buffer
	out *bytes.Buffer
	err *bytes.Buffer
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	streams, in, out, errOut := genericiooptions.NewTestIOStreams()
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.LLMRoute{}, &v1alpha1.BackendPin{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: stamp}).Build()
	r := &rig{t: t, api: api, in: in, out: out, err: errOut}
	r.env = Env{IOStreams: streams, Clock: clocktesting.NewFakePassiveClock(now), Zone: zone, Version: "v0.0.0-test"}
	r.begin()
	return r
}

// begin makes a new program: flags are read once.
func (r *rig) begin() {
	r.out.Reset()
	r.err.Reset()
	r.cli = newCLI(r.env)
	r.cli.connect = func() (client.WithWatch, error) { return r.api, nil }
}

// stamp does what an API server does and the fake does not.
func stamp(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
	object.SetCreationTimestamp(metav1.NewTime(now))
	object.SetUID("uid-of-a-pin")
	return c.Create(ctx, object, options...)
}

// run runs a command line as a person types it behind "kubectl spillway".
func (r *rig) run(args ...string) int {
	r.t.Helper()
	r.begin()
	return r.cli.run(r.t.Context(), append([]string{"kubectl-spillway"}, args...))
}

// transcript is a run as a terminal shows it, with what went to standard error marked.
func (r *rig) transcript(args ...string) string {
	r.t.Helper()
	code := r.run(args...)
	var b strings.Builder
	b.WriteString("$ kubectl spillway " + strings.Join(args, " ") + "\n" + r.out.String())
	for line := range strings.Lines(r.err.String()) {
		b.WriteString("! " + line)
	}
	if code != 0 {
		b.WriteString("[exit code 1]\n")
	}
	return b.String()
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// world is a namespace with a saturated route under a pin, a quiet one, and one that is not served.
func world(t *testing.T) []client.Object {
	t.Helper()
	var objects []client.Object
	data, err := os.ReadFile(filepath.Join("testdata", "world.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
			t.Fatal(err)
		}
		var object client.Object = &v1alpha1.LLMRoute{}
		if meta.Kind == "BackendPin" {
			object = &v1alpha1.BackendPin{}
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}
