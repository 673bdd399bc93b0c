package callerauth

import (
	"bytes"
	"context"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

const (
	// minKey and maxKey bound a key, in bytes. A shorter one could be guessed.
	minKey, maxKey = 16, 4 << 10
	// maxKeys bounds how many there are: each request is compared with all.
	maxKeys = 1024
)

// Keys lets callers in that show one of a set of static keys. A key opens every route. It implements proxy.Authorizer; make
// one with KeysFromSecret or KeysFromFolder.
type Keys struct {
	source keySource
	log    *slog.Logger
	known  atomic.Pointer[[]namedKey] // nil: never read
	told   []string                   // what was wrong with the last set
}

// namedKey is a key and whose it is.
type namedKey struct {
	name string
	key  fingerprint
}

// keySource is where keys come from.
type keySource interface {
	// run hands over each set of keys, by the callers' names, until ctx ends. nil stands for what does not exist.
	run(ctx context.Context, set func(map[string][]byte)) error
	// String names it for logs.
	String() string
}

func newKeys(source keySource, log *slog.Logger) *Keys {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Keys{source: source, log: log.With("source", source.String())}
}

// Run keeps the keys up to date until ctx ends. An error means that it cannot.
func (k *Keys) Run(ctx context.Context) error { return k.source.run(ctx, k.set) }

// Ready returns nil once keys have been read.
func (k *Keys) Ready() error {
	if k.known.Load() == nil {
		return fmt.Errorf("waiting for the callers' keys: %s", k.source)
	}
	return nil
}

// set replaces the keys. A source that exists no longer opens nothing; one that does not exist yet leaves the proxy unready.
func (k *Keys) set(data map[string][]byte) {
	before := k.known.Load()
	if data == nil && before == nil {
		k.log.Error("the callers' keys do not exist yet")
		return
	}
	keys, problems := parseKeys(data)
	k.known.Store(&keys)
	if !slices.Equal(problems, k.told) {
		for _, problem := range problems {
			k.log.Error("a caller's key is not used", "problem", problem)
		}
		k.told = problems
	}
	switch {
	case data == nil && len(*before) > 0:
		k.log.Error("the callers' keys were deleted: nobody is let in")
	case before == nil || !slices.Equal(*before, keys):
		k.log.Info("the callers' keys are loaded", "count", len(keys))
	}
}

// parseKeys returns what to compare credentials with, in the order of the callers' names, and a sentence for each key that
// is not used. White space around a key does not count: files end with a line feed.
func parseKeys(data map[string][]byte) (keys []namedKey, problems []string) {
	keys = []namedKey{}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		key := bytes.TrimSpace(data[name])
		switch {
		case len(key) < minKey:
			problems = append(problems, fmt.Sprintf("%s: it has fewer than %d characters", name, minKey))
		case len(key) > maxKey:
			problems = append(problems, fmt.Sprintf("%s: it has more than %d characters", name, maxKey))
		case slices.ContainsFunc(key, func(b byte) bool { return b <= ' ' || b > '~' }):
			problems = append(problems, fmt.Sprintf("%s: it has characters that no header carries", name))
		case len(keys) == maxKeys:
			return keys, append(problems, fmt.Sprintf("%s and those after it: there are more than %d", name, maxKeys))
		default:
			keys = append(keys, namedKey{name, fingerprintOf(string(key))})
		}
	}
	return keys, problems
}

// Authorize implements proxy.Authorizer.
func (k *Keys) Authorize(_ context.Context, header http.Header, _ *table.Route) (string, *openai.Error) {
	return k.admit(header)
}

// Usable implements proxy.Authorizer: a key opens all routes.
func (k *Keys) Usable(_ context.Context, header http.Header, routes []*table.Route) ([]*table.Route, string, *openai.Error) {
	caller, refusal := k.admit(header)
	if refusal != nil {
		return nil, "", refusal
	}
	return routes, caller, nil
}

// admit returns the name of the caller whose key the request shows.
func (k *Keys) admit(header http.Header) (caller string, refusal *openai.Error) {
	credential, refusal := credentialOf(header)
	if refusal != nil {
		return "", refusal
	}
	known := k.known.Load()
	if known == nil {
		return "", unchecked(context.Background())
	}
	// All are compared, whatever the first says, and each in the same time: how long it takes tells nothing.
	shown, found := fingerprintOf(credential), -1
	for i := range *known {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(shown[:], (*known)[i].key[:]), i, found)
	}
	if found < 0 {
		return "", unauthenticated("the key is not known here")
	}
	return (*known)[found].name, nil
}
