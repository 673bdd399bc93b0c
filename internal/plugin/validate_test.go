package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	r := newRig(t)
	var all []string
	for _, args := range [][]string{
		{"-f", "../../config/samples"},
		{"-f", "../../config/samples", "--standalone"},
		{"-f", "testdata/manifests"},
		{"-f", "testdata/manifests", "--standalone"},
		{"-f", "testdata/manifests/broken.yaml", "-o", "yaml"},
		{"-f", "testdata/absent"},
		{"-f", "testdata"}, // the world, without what its routes refer to
		{},
		{"routes.yaml"}, // the flag forgotten
	} {
		all = append(all, r.transcript(append([]string{"validate"}, args...)...))
	}
	got := strings.Join(all, "\n")
	if strings.Contains(got, "swordfish") {
		t.Error("the output quotes a secret")
	}
	compareGolden(t, "validate", got)
}

func TestValidateReadsStandardInput(t *testing.T) {
	r := newRig(t)
	data, err := os.ReadFile(filepath.Join("testdata", "manifests", "routes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r.in.Write(data)
	if code := r.run("validate", "-f", "-"); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if got := r.out.String(); !strings.HasPrefix(got, "stdin:") {
		t.Errorf("got %q", got)
	}
}

// Whatever the bytes are: a remark or none, and no panic.
func FuzzValidate(f *testing.F) {
	for _, name := range []string{"routes.yaml", "broken.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", "manifests", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("a: &a [*a]\n")
	f.Add("kind: List\napiVersion: v1\nitems: {}\n")
	f.Fuzz(func(t *testing.T, data string) {
		m := &manifests{namespace: "default"}
		if err := m.readFrom("fuzz", strings.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		m.collect(false, now)
	})
}
