package callerauth

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

const (
	annsKey = "anns-key-0123456789"
	bobsKey = "bobs-key-0123456789"
)

func TestKeysOpen(t *testing.T) {
	k := newKeys(folder{path: "test"}, nil)
	if got := codeOf(k.Authorize(t.Context(), bearer(annsKey), nil)); got != openai.CodeModelUnavailable {
		t.Errorf("before the keys are read: %q", got)
	}
	k.set(nil) // they do not exist yet
	if k.Ready() == nil {
		t.Error("ready before the keys are read")
	}
	k.set(map[string][]byte{"ann": []byte(annsKey + "\n"), "bob": []byte(bobsKey)})
	if err := k.Ready(); err != nil {
		t.Error(err)
	}
	cases := map[string]struct {
		header     http.Header
		want       openai.Code
		wantCaller string
	}{
		"a key":                    {bearer(annsKey), "", "ann"},
		"another key":              {bearer(bobsKey), "", "bob"},
		"a key in x-api-key":       {http.Header{"X-Api-Key": {bobsKey}}, "", "bob"},
		"an unknown key":           {bearer("eves-key-0123456789"), openai.CodeUnauthenticated, ""},
		"the beginning of one":     {bearer(annsKey[:len(annsKey)-1]), openai.CodeUnauthenticated, ""},
		"one and more":             {bearer(annsKey + "0"), openai.CodeUnauthenticated, ""},
		"the name of a caller":     {bearer("ann"), openai.CodeUnauthenticated, ""},
		"none":                     {http.Header{}, openai.CodeUnauthenticated, ""},
		"a bearer of nothing":      {bearer(""), openai.CodeUnauthenticated, ""},
		"two keys":                 {http.Header{"X-Api-Key": {annsKey, bobsKey}}, openai.CodeUnauthenticated, ""},
		"another scheme":           {http.Header{"Authorization": {"Basic " + annsKey}}, openai.CodeUnauthenticated, ""},
		"a key without its scheme": {http.Header{"Authorization": {annsKey}}, openai.CodeUnauthenticated, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			caller, refusal := k.Authorize(t.Context(), tc.header, route("ns", "m"))
			if got := codeOf(caller, refusal); got != tc.want || caller != tc.wantCaller {
				t.Errorf("code %q for %q, want %q for %q", got, caller, tc.want, tc.wantCaller)
			}
			routes := []*table.Route{route("ns", "m")}
			usable, caller, refusal := k.Usable(t.Context(), tc.header, routes)
			if got := codeOf(caller, refusal); got != tc.want || caller != tc.wantCaller || (len(usable) == 1) != (tc.want == "") {
				t.Errorf("list: code %q for %q and %d routes, want %q for %q", got, caller, len(usable), tc.want, tc.wantCaller)
			}
		})
	}
}

func TestParseKeys(t *testing.T) {
	many := map[string][]byte{}
	for i := range maxKeys + 1 {
		many[strconv.Itoa(10000+i)] = []byte("key-0123456789-" + strconv.Itoa(i))
	}
	cases := map[string]struct {
		data         map[string][]byte
		wantKeys     int
		wantProblems []string
	}{
		"none":                     {nil, 0, nil},
		"two callers with one key": {map[string][]byte{"a": []byte(annsKey), "b": []byte(annsKey)}, 2, nil},
		"an empty key":             {map[string][]byte{"a": nil, "b": []byte(bobsKey)}, 1, []string{"a: it has fewer than 16 characters"}},
		"a short key":              {map[string][]byte{"a": []byte(" 012345678901234\n")}, 0, []string{"a: it has fewer than 16 characters"}},
		"a long key":               {map[string][]byte{"a": bytes.Repeat([]byte("x"), maxKey+1)}, 0, []string{"a: it has more than 4096 characters"}},
		"the longest key":          {map[string][]byte{"a": bytes.Repeat([]byte("~"), maxKey)}, 1, nil},
		"a key with a space":       {map[string][]byte{"a": []byte("anns key 0123456789")}, 0, []string{"a: it has characters that no header carries"}},
		"a key of two lines":       {map[string][]byte{"a": []byte(annsKey + "\n" + bobsKey)}, 0, []string{"a: it has characters that no header carries"}},
		"a key beyond ASCII":       {map[string][]byte{"a": []byte("Schlüssel-0123456789")}, 0, []string{"a: it has characters that no header carries"}},
		"too many":                 {many, maxKeys, []string{"11024 and those after it: there are more than 1024"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			keys, problems := parseKeys(tc.data)
			if diff := cmp.Diff(tc.wantProblems, problems); diff != "" || len(keys) != tc.wantKeys {
				t.Errorf("%d keys, want %d; problems (-want +got):\n%s", len(keys), tc.wantKeys, diff)
			}
		})
	}
}

// publish replaces a folder's content at one stroke, as a mounted Secret is replaced.
func publish(t *testing.T, dir, version string, keys map[string]string) {
	t.Helper()
	target := filepath.Join(dir, ".."+version)
	if err := os.Mkdir(target, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, key := range keys {
		if err := os.WriteFile(filepath.Join(target, name), []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name))
	}
	if err := os.Symlink(".."+version, filepath.Join(dir, "..tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func TestFolderIsFollowed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := KeysFromFolder(dir, nil); err == nil {
		t.Fatal("a folder that does not exist is no error at start")
	}
	if err := os.MkdirAll(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	publish(t, dir, "1", map[string]string{"ann": annsKey, "eve": "short"})
	if err := os.WriteFile(filepath.Join(dir, ".bob"), []byte(bobsKey), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		k, err := KeysFromFolder(dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Ready(); err != nil {
			t.Error(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		opens := func(step string, wantAnn, wantBob bool) {
			t.Helper()
			time.Sleep(folderPause)
			synctest.Wait()
			known := func(key string) bool { _, refusal := k.admit(bearer(key)); return refusal == nil }
			ann, bob := known(annsKey), known(bobsKey)
			if ann != wantAnn || bob != wantBob {
				t.Errorf("%s: ann %v, want %v; bob %v, want %v", step, ann, wantAnn, bob, wantBob)
			}
		}
		opens("at start", true, false)
		opens("with nothing new", true, false)
		publish(t, dir, "2", map[string]string{"ann": "another-0123456789", "bob": bobsKey})
		opens("after a rotation", false, true)
		if err := errors.Join(os.Rename(dir, dir+"-away"), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		opens("while it cannot be read", false, true)
		opens("and is asked again", false, true)
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		opens("after the end of the folder", false, false)
		opens("still", false, false)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		publish(t, dir, "3", map[string]string{"ann": annsKey})
		opens("after its return", true, false)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for _, want := range []string{"eve: it has fewer than 16 characters", "nobody is let in", "count=1"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	for what, want := range map[string]int{"nobody is let in": 1, "eve: it has fewer": 1, "keys are loaded": 3, "cannot be read": 1} {
		if n := strings.Count(log.String(), what); n != want {
			t.Errorf("%q was told %d times, want %d", what, n, want)
		}
	}
	for _, key := range []string{annsKey, bobsKey, "short\n"} {
		if strings.Contains(log.String(), key) {
			t.Errorf("the log holds a key:\n%s", log.String())
		}
	}
}

func TestFileIsNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(annsKey), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := KeysFromFolder(file, nil); err == nil || strings.Contains(err.Error(), annsKey) {
		t.Errorf("error %v", err)
	}
}

func TestFileThatCannotBeReadIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("ann", filepath.Join(dir, "ann")); err != nil {
		t.Fatal(err)
	}
	if _, err := KeysFromFolder(dir, nil); err == nil {
		t.Error("no error")
	}
}
