package standalone

import (
	"context"
	"crypto/rand"
	"log/slog"

	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/table"
)

// saltBytes is the length of the random salt behind backend ids. Nothing outside of the process sees them.
const saltBytes = 32

// runner is one running proxy's folder.
type runner struct {
	folder   *folder
	store    *table.Store
	log      *slog.Logger
	clock    clock.PassiveClock
	onResult func(compiler.Result)
	salt     []byte
	told     map[string]bool // what the log has said and still holds
}

// Run reads the manifests in dir, sets the compiled table into store, and does so again whenever a file changes, until
// ctx ends; then it returns nil. It returns an error only where dir cannot be read or watched at the start. From then on
// trouble is logged and what was read last stays in force.
//
// onResult, where it is not nil, gets each result after its table is live, always from one goroutine. Logged are
// mistakes with file and line, and the problems of the verdicts, each once as long as it lasts.
func Run(ctx context.Context, dir string, store *table.Store, log *slog.Logger, onResult func(compiler.Result)) error {
	w, closeWatch, err := watch(dir) // before the first read, so that no edit falls between the two
	if err != nil {
		return err
	}
	defer closeWatch()
	r := &runner{
		folder: newFolder(dir), store: store, log: log, clock: clock.RealClock{}, onResult: onResult,
		salt: make([]byte, saltBytes), told: map[string]bool{},
	}
	_, _ = rand.Read(r.salt) // never fails
	w.follow()
	if _, err := r.folder.read(); err != nil {
		return err
	}
	r.compile()
	for w.wait(ctx) {
		w.follow()
		r.reload()
	}
	return nil
}

// reload reads the folder again.
func (r *runner) reload() {
	changed, err := r.folder.read()
	if err != nil {
		r.log.Error("the manifests cannot be read; the last ones stay in force", "error", err)
		return
	}
	if changed {
		r.compile()
	}
}

// compile makes the table of what the folder says and sets it.
func (r *runner) compile() {
	snapshot, messages := r.folder.snapshot()
	snapshot.Salt = r.salt
	result := compiler.Compile(snapshot, r.clock.Now())
	r.store.Set(result.Table)
	r.log.Info("manifests loaded", "files", len(r.folder.files), "routes", len(result.Routes), "pins", len(result.Pins),
		"models", len(result.Table.Models()))
	r.tell(messages, &result)
	if r.onResult != nil {
		r.onResult(result)
	}
}

// tell logs what is new among the mistakes.
func (r *runner) tell(messages []Message, result *compiler.Result) {
	holds := map[string]bool{}
	say := func(text string, args ...any) {
		if holds[text] = true; !r.told[text] {
			r.log.Warn(text, args...)
		}
	}
	for _, m := range messages {
		say(m.String())
	}
	for _, v := range result.SortedRoutes() {
		for _, p := range v.Problems {
			say("LLMRoute "+v.Key.String()+": "+p.String(), "reason", string(p.Reason))
		}
	}
	for _, v := range result.SortedPins() {
		for _, p := range v.Problems {
			say("BackendPin "+v.Key.String()+": "+p.String(), "reason", string(p.Reason))
		}
	}
	r.told = holds
}
