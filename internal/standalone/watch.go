package standalone

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Saving a file is several events, and a ConfigMap swap touches every file, so a reload waits until the folder has been
// quiet, but never longer than maxDelay after the first event.
const (
	quiet    = 50 * time.Millisecond
	maxDelay = 500 * time.Millisecond
)

// watcher tells when a folder may have changed. It watches the folder, its parent (the folder may be a link that is
// swapped, or be made anew) and the folders that files of it are links into.
type watcher struct {
	dir     string
	events  *fsnotify.Watcher
	targets map[string]bool
}

// watch starts to watch a folder. close ends it.
func watch(dir string) (w *watcher, closeWatch func(), err error) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, fmt.Errorf("watch the folder of manifests: %w", err)
	}
	w = &watcher{dir: filepath.Clean(dir), events: events, targets: map[string]bool{}}
	if err := events.Add(w.dir); err != nil {
		_ = events.Close()
		return nil, nil, fmt.Errorf("watch the folder of manifests: %w", err)
	}
	// Without permission on the parent only a swap of the folder itself goes unseen.
	_ = events.Add(filepath.Dir(w.dir))
	return w, func() { _ = events.Close() }, nil
}

// wait returns true once the folder may have changed and has been quiet for a moment, or at an instant if that is not zero, and
// false when ctx ends.
func (w *watcher) wait(ctx context.Context, at time.Time) bool {
	var settled, latest <-chan time.Time
	due := justAfter(at)
	for {
		select {
		case <-ctx.Done():
			return false
		case event, ok := <-w.events.Events:
			if !ok {
				return false
			}
			if !w.concerns(event) {
				continue
			}
		case _, ok := <-w.events.Errors:
			// Events may have been lost, so read again. The watcher goes on.
			if !ok {
				return false
			}
		case <-settled:
			return true
		case <-latest:
			return true
		case <-due:
			return true
		}
		settled = time.After(quiet)
		latest = cmp.Or(latest, time.After(maxDelay)) // counts from the first change
	}
}

// justAfter fires when an instant has passed; never where that is zero.
func justAfter(at time.Time) <-chan time.Time {
	if at.IsZero() {
		return nil
	}
	return time.After(max(time.Until(at), 0) + time.Millisecond)
}

// concerns leaves out what happens beside the folder, and watches the folder anew where it was swapped.
func (w *watcher) concerns(event fsnotify.Event) bool {
	name := filepath.Clean(event.Name)
	if name == w.dir {
		w.rearm()
		return true
	}
	parent := filepath.Dir(name)
	return parent == w.dir || w.targets[parent]
}

// rearm watches what the folder's name stands for now. Where there is nothing, the parent tells when there is again.
func (w *watcher) rearm() {
	_ = w.events.Remove(w.dir)
	_ = w.events.Add(w.dir)
}

// follow watches the folders that files of the folder are links into. Call it before each read, so that no edit falls
// between the two.
func (w *watcher) follow() {
	targets := w.linkTargets()
	for dir := range targets {
		_ = w.events.Add(dir) // a folder that is watched already stays so
	}
	for dir := range w.targets {
		if !targets[dir] && dir != w.dir && dir != filepath.Dir(w.dir) {
			_ = w.events.Remove(dir)
		}
	}
	w.targets = targets
}

func (w *watcher) linkTargets() map[string]bool {
	targets := map[string]bool{}
	own, err := filepath.EvalSymlinks(w.dir)
	if err != nil {
		return targets
	}
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return targets
	}
	for _, entry := range entries {
		if !IsManifest(entry.Name()) {
			continue
		}
		if path, err := filepath.EvalSymlinks(filepath.Join(w.dir, entry.Name())); err == nil && filepath.Dir(path) != own {
			targets[filepath.Dir(path)] = true
		}
	}
	return targets
}
