package standalone

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/table"
)

// saltBytes is the length of the random salt behind backend ids. Nothing outside of the process sees them.
const saltBytes = 32

// runner is one running proxy's folder.
type runner struct {
	folder *folder
	store  *table.Store
	log    *slog.Logger
	clock  clock.PassiveClock
	onLoad func(*Loaded)
	salt   []byte
	told   map[string]bool // what the log has said and still holds
	next   time.Time       // when to compile again without a change; zero for never
}

// Loaded is one reading of the folder. It is immutable.
type Loaded struct {
	At       time.Time
	Files    int // that were read
	Snapshot compiler.Snapshot
	Result   compiler.Result
	Mistakes []Message
}

// Run reads the manifests in dir, sets the compiled table into store, and does so again whenever a file changes, until
// ctx ends; then it returns nil. It returns an error only where dir cannot be read or watched at the start. From then on
// trouble is logged and what was read last stays in force.
//
// onLoad, where it is not nil, gets what was loaded after its table is live, always from one goroutine. Mistakes are logged
// with file and line, each once as long as it lasts, and once more when it is mended.
func Run(ctx context.Context, dir string, store *table.Store, log *slog.Logger, onLoad func(*Loaded)) error {
	w, closeWatch, err := watch(dir) // before the first read, so that no edit falls between the two
	if err != nil {
		return err
	}
	defer closeWatch()
	r := &runner{
		folder: newFolder(dir), store: store, log: log, clock: clock.RealClock{}, onLoad: onLoad,
		salt: make([]byte, saltBytes), told: map[string]bool{},
	}
	_, _ = rand.Read(r.salt) // never fails
	w.follow()
	if _, err := r.folder.read(); err != nil {
		return err
	}
	r.compile()
	for w.wait(ctx, r.next) {
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
	if changed || !r.next.IsZero() && !r.clock.Now().Before(r.next) {
		r.compile()
	}
}

// compile makes the table of what the folder says and sets it.
func (r *runner) compile() {
	collection := r.folder.collect()
	collection.Snapshot.Salt = r.salt
	now := r.clock.Now()
	result := compiler.Compile(collection.Snapshot, now)
	r.store.Set(result.Table())
	r.next = result.Next
	loaded := &Loaded{At: now, Files: len(r.folder.files), Snapshot: collection.Snapshot, Result: result, Mistakes: collection.mistakes(&result)}
	r.log.Info("manifests loaded", "files", loaded.Files, "routes", len(result.Routes), "pins", len(result.Pins),
		"models", len(result.Table().Models()), "mistakes", len(loaded.Mistakes))
	r.tell(loaded.Mistakes)
	if r.onLoad != nil {
		r.onLoad(loaded)
	}
}

// tell logs what is new among the mistakes, and what is no longer there.
func (r *runner) tell(mistakes []Message) {
	holds := map[string]bool{}
	for _, m := range mistakes {
		text := m.String()
		if !holds[text] && !r.told[text] {
			r.log.Warn(text)
		}
		holds[text] = true
	}
	for _, text := range slices.Sorted(maps.Keys(r.told)) {
		if !holds[text] {
			r.log.Info("mended", "was", text)
		}
	}
	r.told = holds
}
