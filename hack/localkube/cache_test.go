package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fakeBuild writes a small executable whose contents name it, and counts.
func fakeBuild(count *atomic.Int32) buildFunc {
	return func(_ context.Context, b binary, out string, _ *progress) error {
		count.Add(1)
		return os.WriteFile(out, []byte("binary "+b.Name), 0o755)
	}
}

func quiet() *progress { return newProgress(io.Discard) }

// fullCache returns a directory that ensure has completed.
func fullCache(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "key")
	if err := ensure(t.Context(), dir, binaries, quiet(), fakeBuild(new(atomic.Int32))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func names(bs []binary) []string {
	var out []string
	for _, b := range bs {
		out = append(out, b.Name)
	}
	return out
}

func TestLacking(t *testing.T) {
	all := names(binaries)
	tests := map[string]struct {
		damage func(t *testing.T, dir string)
		want   []string
	}{
		"a complete directory lacks nothing": {
			damage: func(*testing.T, string) {},
		},
		"without a directory everything is lacking": {
			damage: func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
			want:   all,
		},
		"without a manifest nothing is proven": {
			damage: func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, manifestName))) },
			want:   all,
		},
		"a truncated manifest proves nothing": {
			damage: func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, manifestName), 20)) },
			want:   all,
		},
		"a manifest that says null proves nothing": {
			damage: func(t *testing.T, dir string) {
				must(t, os.WriteFile(filepath.Join(dir, manifestName), []byte("null"), 0o644))
			},
			want: all,
		},
		"a removed binary is lacking alone": {
			damage: func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "kubectl"))) },
			want:   []string{"kubectl"},
		},
		"a truncated binary is lacking alone": {
			damage: func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, "kube-apiserver"), 3)) },
			want:   []string{"kube-apiserver"},
		},
		"a binary of the right size with other bytes is lacking": {
			damage: func(t *testing.T, dir string) {
				must(t, os.WriteFile(filepath.Join(dir, "etcd"), []byte("binary etcD"), 0o755))
			},
			want: []string{"etcd"},
		},
		"a binary that cannot be executed is lacking": {
			damage: func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, "etcd"), 0o644)) },
			want:   []string{"etcd"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := fullCache(t)
			tc.damage(t, dir)
			got, err := lacking(dir, binaries)
			must(t, err)
			if !slices.Equal(names(got), tc.want) {
				t.Errorf("lacking: got %v, want %v", names(got), tc.want)
			}

			var built atomic.Int32
			must(t, ensure(t.Context(), dir, binaries, quiet(), fakeBuild(&built)))
			if int(built.Load()) != len(tc.want) {
				t.Errorf("ensure built %d binaries, want only the %d lacking ones", built.Load(), len(tc.want))
			}
			got, err = lacking(dir, binaries)
			must(t, err)
			if len(got) > 0 {
				t.Errorf("still lacking after ensure: %v", names(got))
			}
		})
	}
}

func TestEnsureBuildsOnceForManyAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "key")
	var built atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := ensure(t.Context(), dir, binaries, quiet(), fakeBuild(&built)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := int(built.Load()); got != len(binaries) {
		t.Errorf("8 at a time built %d binaries, want %d", got, len(binaries))
	}
}

func TestEnsureLeavesNoHalfBinary(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "key")
	ctx, interrupt := context.WithCancel(t.Context())
	var built atomic.Int32
	err := ensure(ctx, dir, binaries, quiet(), func(ctx context.Context, b binary, out string, p *progress) error {
		if b.Name != "kube-apiserver" {
			return fakeBuild(&built)(ctx, b, out, p)
		}
		must(t, os.WriteFile(out, []byte("half a bin"), 0o755))
		interrupt()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted ensure: got %v, want context.Canceled", err)
	}
	got, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	want := []string{filepath.Join(dir, "etcd"), filepath.Join(dir, manifestName)}
	if !slices.Equal(got, want) {
		t.Errorf("after the interruption the directory holds %v, want %v", got, want)
	}
	must(t, ensure(t.Context(), dir, binaries, quiet(), fakeBuild(&built)))
	if built.Load() != 3 {
		t.Errorf("built %d binaries in all, want 3: the finished one counts", built.Load())
	}
}

func TestLockEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := tryLock(path)
	must(t, err)
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lock(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a held lock: got %v, want context.Canceled", err)
	}
}

func TestRemoveOthersKeepsTheCurrentAndTheBusy(t *testing.T) {
	root := t.TempDir()
	for _, key := range []string{"old", "current", "also", "busy"} {
		must(t, os.Mkdir(filepath.Join(root, key), 0o755))
	}
	release, err := tryLock(filepath.Join(root, "busy.lock"))
	must(t, err)
	defer release()
	must(t, removeOthers(root, []string{"current", "also"}, io.Discard))
	got, err := filepath.Glob(filepath.Join(root, "*"))
	must(t, err)
	want := []string{filepath.Join(root, "also"), filepath.Join(root, "busy"), filepath.Join(root, "busy.lock"), filepath.Join(root, "current")}
	if !slices.Equal(got, want) {
		t.Errorf("left: %v, want %v", got, want)
	}
	must(t, removeOthers(filepath.Join(root, "never-made"), []string{"current"}, io.Discard))
}

func TestCheckGiven(t *testing.T) {
	onPath := t.TempDir()
	must(t, os.WriteFile(filepath.Join(onPath, "kubectl"), nil, 0o755))
	tests := map[string]struct {
		files    map[string]os.FileMode
		path     string
		relative bool
		want     string // in the error; empty: none
		wantSaid string
	}{
		"all three are there": {
			files: map[string]os.FileMode{"etcd": 0o755, "kube-apiserver": 0o755, "kubectl": 0o755},
		},
		"kubectl may come from PATH": {
			files:    map[string]os.FileMode{"etcd": 0o755, "kube-apiserver": 0o755},
			path:     onPath,
			wantSaid: filepath.Join(onPath, "kubectl"),
		},
		"the API server may not": {
			files: map[string]os.FileMode{"etcd": 0o755, "kubectl": 0o755},
			path:  onPath,
			want:  "kube-apiserver is missing",
		},
		"every problem is named": {
			files: map[string]os.FileMode{"etcd": 0o644},
			want:  "etcd is not executable, kube-apiserver is missing, kubectl is missing",
		},
		"a relative path would depend on where it is read": {
			relative: true,
			want:     "must be an absolute path",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for f, mode := range tc.files {
				must(t, os.WriteFile(filepath.Join(dir, f), nil, mode))
			}
			if tc.relative {
				dir = "bin"
			}
			t.Setenv("PATH", tc.path)
			var said bytes.Buffer
			err := checkGiven(dir, &said)
			if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got error %v, want one that says %q", err, tc.want)
			}
			if !strings.Contains(said.String(), tc.wantSaid) {
				t.Errorf("told the user %q, want it to name %q", said.String(), tc.wantSaid)
			}
		})
	}
}

func TestCacheKey(t *testing.T) {
	mod, sum := "require (\n\tk8s.io/kubernetes v1.37.2 // indirect\n)", "sums"
	args, err := buildArgs([]byte(mod))
	must(t, err)
	tc := toolchain{GOVERSION: "go1.26.0", GOOS: "linux", GOARCH: "amd64"}
	key := cacheKey(mod, sum, tc, args)
	if again := cacheKey(mod, sum, tc, args); again != key {
		t.Errorf("the same input gave %s and %s", key, again)
	}
	if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(key) {
		t.Errorf("key %q is not 16 hex digits", key)
	}
	newer := tc
	newer.GOVERSION = "go1.26.1"
	arm := tc
	arm.GOARCH = "arm64"
	for name, other := range map[string]string{
		"go.mod":           cacheKey("other", sum, tc, args),
		"go.sum":           cacheKey(mod, "other", tc, args),
		"the Go version":   cacheKey(mod, sum, newer, args),
		"the architecture": cacheKey(mod, sum, arm, args),
		"the build flags":  cacheKey(mod, sum, tc, append(slices.Clone(args), "-race")),
		"where one ends":   cacheKey(mod+"s", sum[1:], tc, args),
	} {
		if other == key {
			t.Errorf("%s does not change the key", name)
		}
	}
}

func TestBuildArgs(t *testing.T) {
	args, err := buildArgs([]byte("require k8s.io/kubernetes v1.2.3\n"))
	if err == nil {
		t.Errorf("a go.mod without a requirement block of its own line gave %q", args)
	}
	args, err = buildArgs([]byte("\tk8s.io/kubernetes v1.37.2 // indirect\n"))
	must(t, err)
	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=v1.37.2", "-X k8s.io/client-go/pkg/version.gitMinor=37",
	} {
		if !strings.Contains(strings.Join(args, " "), want) {
			t.Errorf("build arguments %q lack %q", args, want)
		}
	}
}

// The packages that are built are the ones that go.mod keeps.
func TestBinariesAreToolsOfTheModule(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	must(t, err)
	for _, b := range binaries {
		if !regexp.MustCompile(`(?m)^(tool |\t)` + regexp.QuoteMeta(b.Package) + `$`).Match(mod) {
			t.Errorf("go.mod has no tool directive for %s", b.Package)
		}
	}
}

// A node is of the same Kubernetes as the API server that everybody else tests with.
func TestNodeHasTheSameVersions(t *testing.T) {
	versions := func(file string) []string {
		mod, err := os.ReadFile(file)
		must(t, err)
		return regexp.MustCompile(`(?m)^\s(k8s\.io/\S+ => .*|k8s\.io/kubernetes v\S+|go\.etcd\.io/etcd/server/v3 v\S+)`).FindAllString(string(mod), -1)
	}
	want := versions("go.mod")
	slices.Sort(want)
	got := versions(filepath.Join(nodeModule, "go.mod"))
	slices.Sort(got)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("versions of %s:\n%s\nwant those of this module:\n%s", nodeModule, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestListen(t *testing.T) {
	p := quiet()
	said := listen(strings.NewReader(strings.Join([]string{
		"go: downloading k8s.io/api v0.37.2",
		"internal/cpu",
		"k8s.io/api/core/v1",
		"go.etcd.io/etcd/server/v3",
		"# k8s.io/broken",
		"./x.go:1:1: syntax error",
		strings.Repeat("x", 2<<20), // longer than the buffer: must be read all the same
	}, "\n")), p)
	if p.downloads != 1 || p.done != 3 {
		t.Errorf("got %d downloads and %d packages, want 1 and 3", p.downloads, p.done)
	}
	if want := "# k8s.io/broken\n./x.go:1:1: syntax error"; said != want {
		t.Errorf("kept %q, want %q", said, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
