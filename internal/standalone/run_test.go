package standalone

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watchdog ends a test whose event never comes. It bounds nothing else.
const watchdog = time.Minute

// testRun is a Run in a folder of its own.
type testRun struct {
	t       *testing.T
	dir     string
	store   *table.Store
	results chan compiler.Result
	log     *lockedBuffer
}

type lockedBuffer struct {
	sync.Mutex
	strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Builder.Write(p)
}

func (b *lockedBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.Builder.String()
}

// start runs a folder until the test ends.
func start(t *testing.T, dir string) *testRun {
	t.Helper()
	r := &testRun{t: t, dir: dir, store: table.NewStore(), results: make(chan compiler.Result, 100), log: &lockedBuffer{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, dir, r.store, slog.New(slog.NewTextHandler(r.log, nil)), func(l *Loaded) { r.results <- l.Result })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if strings.Contains(r.log.String(), "swordfish") {
			t.Errorf("the log quotes a secret:\n%s", r.log)
		}
	})
	return r
}

// waitFor waits for a result whose models are these, and returns it.
func (r *testRun) waitFor(models ...string) compiler.Result {
	r.t.Helper()
	timeout := time.After(watchdog)
	want := strings.Join(models, " ")
	for got := "nothing"; ; {
		select {
		case result := <-r.results:
			if got = strings.Join(result.Table().Models(), " "); got == want {
				return result
			}
		case <-timeout:
			r.t.Fatalf("the table has the models %q, want %q; log:\n%s", got, want, r.log)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// route is a manifest of a route with a model.
func route(name, model string) string {
	return fmt.Sprintf("apiVersion: spillway.dev/v1alpha1\nkind: LLMRoute\nmetadata: {name: %s}\n"+
		"spec: {model: %s, chain: [{name: a, url: 'http://127.0.0.1:1', auth: {secretRef: {name: key, key: token}}}]}\n", name, model)
}

func TestRunReloadsWhateverHappensToTheFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, route("one", "m1")+"---\n"+goodSecret)
	r := start(t, dir)
	result := r.waitFor("m1")
	if got := r.store.Load().ByModel("m1").Chain[0].Credential.Value; got != "Bearer swordfish" {
		t.Errorf("the credential is %q", got)
	}
	if !r.store.Ready() || !result.SortedRoutes()[0].Programmable {
		t.Error("the store is not ready or the route not programmable")
	}

	write(t, file, route("one", "m2")+"---\n"+goodSecret)
	r.waitFor("m2")

	write(t, filepath.Join(dir, ".a.yaml.tmp"), route("one", "m3")+"---\n"+goodSecret) // as editors save
	must(t, os.Rename(filepath.Join(dir, ".a.yaml.tmp"), file))
	r.waitFor("m3")

	write(t, filepath.Join(dir, "b.json"), `{"apiVersion":"spillway.dev/v1alpha1","kind":"LLMRoute","metadata":{"name":"two"},`+
		`"spec":{"model":"m4","chain":[{"name":"a","url":"http://127.0.0.1:1"}]}}`)
	r.waitFor("m3", "m4")

	must(t, os.Remove(file))
	r.waitFor("m4")
}

func TestRunKeepsWhatABrokenFileSaidBefore(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, route("one", "m1")+"---\n"+route("two", "m2")+"---\n"+goodSecret)
	r := start(t, dir)
	r.waitFor("m1", "m2")

	// The first document is broken, the second changed: the first stays, the second is updated.
	write(t, file, "apiVersion: [\n---\n"+route("two", "m3")+"---\n"+goodSecret)
	r.waitFor("m1", "m3")
	for _, want := range []string{"a.yaml:1: The document is not valid YAML", "what it held before and no longer says stays in force; objects: 1."} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, r.log)
		}
	}

	// Not even a file, and from one moment to the next: a file that is gone for longer is one that was deleted.
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	must(t, os.Symlink("folder", filepath.Join(dir, "link")))
	must(t, os.Rename(filepath.Join(dir, "link"), file))
	write(t, filepath.Join(dir, "b.yaml"), route("three", "m4"))
	r.waitFor("m1", "m3", "m4")
	must(t, os.Remove(file))
	write(t, file, route("two", "m5"))
	r.waitFor("m4", "m5")
}

func TestRunStartsWithABrokenFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), "apiVersion: [\n---\n"+route("one", "m1"))
	write(t, filepath.Join(dir, "notes.txt"), "not a manifest")
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600))
	r := start(t, dir)
	r.waitFor("m1")
}

func TestRunFollowsTheSwapOfAMountedConfigMap(t *testing.T) {
	dir := t.TempDir()
	mount := func(version, model string) {
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "routes.yaml"), route("one", model))
		must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	mount("..v1", "m1")
	must(t, os.Symlink(filepath.Join("..data", "routes.yaml"), filepath.Join(dir, "routes.yaml")))
	r := start(t, dir)
	r.waitFor("m1")
	for version := 2; version < 5; version++ {
		mount(fmt.Sprintf("..v%d", version), fmt.Sprintf("m%d", version))
		must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..v%d", version-1))))
		r.waitFor(fmt.Sprintf("m%d", version))
	}
}

func TestRunFollowsLinksOutOfTheFolder(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	target := filepath.Join(elsewhere, "r.yaml")
	write(t, target, route("one", "m1"))
	must(t, os.Symlink(target, filepath.Join(dir, "link.yaml")))
	r := start(t, dir)
	r.waitFor("m1")
	write(t, target, route("one", "m2"))
	r.waitFor("m2")
}

func TestRunOutlivesItsFolder(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "manifests")
	must(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "a.yaml"), route("one", "m1"))
	r := start(t, dir)
	r.waitFor("m1")

	must(t, os.Rename(dir, filepath.Join(parent, "old")))
	if got := r.store.Load().ByModel("m1"); got == nil {
		t.Error("the table went with the folder")
	}
	must(t, os.Mkdir(filepath.Join(parent, "next"), 0o700))
	write(t, filepath.Join(parent, "next", "a.yaml"), route("one", "m2"))
	must(t, os.Symlink("next", dir))
	r.waitFor("m2")
	write(t, filepath.Join(dir, "a.yaml"), route("one", "m3"))
	r.waitFor("m3")
}

func TestAgeIsFileNameThenPosition(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yaml"), route("in-b", "m"))
	write(t, filepath.Join(dir, "a.yaml"), route("z-first", "m")+"---\n"+route("a-second", "m")+"---\n"+route("z-first", "other"))
	r := start(t, dir)
	result := r.waitFor("m")
	if got := result.Table().ByModel("m").Name; got != "z-first" {
		t.Errorf("the model is held by %s, want z-first", got)
	}
	for _, want := range []string{
		"a.yaml:11: The LLMRoute default/z-first is already in a.yaml, line 1; this one is ignored.",
		"held by the route default/z-first, because it comes first in the manifests",
	} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, r.log)
		}
	}
}

func TestRunNeedsItsFolderAtTheStart(t *testing.T) {
	err := Run(context.Background(), filepath.Join(t.TempDir(), "none"), table.NewStore(), slog.New(slog.DiscardHandler), nil)
	if err == nil {
		t.Error("a folder that does not exist is no error")
	}
}

func TestMistakesAreToldWithTheirPlaceAndWhenTheyAreMended(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, route("one", "m1")+"---\n"+goodRoute+"  whenAllOpen: [\n")
	r := start(t, dir)
	r.waitFor("m1")
	wrong := `a.yaml:4: LLMRoute default/one: spec.chain[0].auth.secretRef: Backend \"a\" is left out: the Secret \"key\" does not exist`
	write(t, file, route("one", "m2")+"---\n"+goodSecret)
	r.waitFor("m2")
	for _, want := range []string{
		"a.yaml:5: The document is not valid YAML near this line; it is ignored.", wrong,
		`msg=mended was="a.yaml:5: The document is not valid YAML`, `msg=mended was="` + wrong, "mistakes=0",
	} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, r.log)
		}
	}
}

// Of too many pins on a route others count once one is over, although no file changes.
func TestTheFolderIsCompiledAgainWhenOtherPinsAreToCount(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 8, 13, 21, 0, 0, 0, time.UTC)
	var text strings.Builder
	text.WriteString(route("m", "m"))
	for i := range 33 {
		fmt.Fprintf(&text, "---\napiVersion: spillway.dev/v1alpha1\nkind: BackendPin\nmetadata: {name: pin-%02d}\nspec: {routes: {names: [m]}, backend: a, mode: Prefer, expiresAt: %q}\n",
			i, now.Add(time.Duration(40-i)*time.Hour).Format(time.RFC3339))
	}
	write(t, filepath.Join(dir, "all.yaml"), text.String())
	clock := clocktesting.NewFakePassiveClock(now)
	r := &runner{folder: newFolder(dir), store: table.NewStore(), log: slog.New(slog.DiscardHandler), clock: clock, told: map[string]bool{}}
	r.reload()
	oldest := func() string { return r.store.Load().Routes()[0].Pins[0].Name }
	if got := oldest(); got != "pin-01" {
		t.Fatalf("the oldest pin that counts is %s, want pin-01", got)
	}
	r.reload()
	if got := oldest(); got != "pin-01" {
		t.Errorf("the oldest pin that counts is %s, want pin-01: nothing has happened", got)
	}
	clock.SetTime(r.next)
	w, closeWatch, err := watch(dir)
	must(t, err)
	defer closeWatch()
	if !w.wait(t.Context(), time.Unix(1, 0)) {
		t.Error("the wait for an instant that has passed does not end")
	}
	r.reload()
	if got := oldest(); got != "pin-00" {
		t.Errorf("the oldest pin that counts is %s, want pin-00", got)
	}
}
