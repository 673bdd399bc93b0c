package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFlags(t *testing.T) {
	cases := map[string]struct {
		args      []string
		wantError string
	}{
		"defaults":                   {nil, ""},
		"a list of namespaces":       {[]string{"--watch-namespaces", "a, b,"}, ""},
		"a namespace that is none":   {[]string{"--namespace", "No Such"}, "is not the name of a namespace"},
		"a watched one that is none": {[]string{"--watch-namespaces", "a,B!"}, "is not the name of a namespace"},
		"a negative span":            {[]string{"--pin-retention", "-1h"}, "longer than 0s"},
		"an argument":                {[]string{"start"}, `unexpected argument "start"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := flag.NewFlagSet("manager", flag.ContinueOnError)
			set.SetOutput(io.Discard)
			_, err := parseFlags(set, tc.args)
			if tc.wantError == "" && err != nil || tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)) {
				t.Errorf("error = %v, want %q", err, tc.wantError)
			}
		})
	}
}

func TestFlagsAreRead(t *testing.T) {
	set := flag.NewFlagSet("manager", flag.ContinueOnError)
	s, err := parseFlags(set, []string{"--namespace", "own", "--watch-namespaces", "a, b", "--leader-elect", "--max-pin", "1h", "--report-timeout", "5s", "--log-level", "debug"})
	if err != nil {
		t.Fatal(err)
	}
	got := []any{s.controller.Namespace, s.controller.WatchNamespaces, s.leaderElect, s.controller.MaxPin, s.controller.ReportTimeout, s.logLevel.String()}
	if diff := cmp.Diff([]any{"own", []string{"a", "b"}, true, time.Hour, 5 * time.Second, "DEBUG"}, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestUsageHidesWhatIsForTests(t *testing.T) {
	set := flag.NewFlagSet("manager", flag.ContinueOnError)
	var out bytes.Buffer
	set.SetOutput(&out)
	if _, err := parseFlags(set, []string{"--help"}); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("error = %v", err)
	}
	if strings.Contains(out.String(), hiddenReportTimeout) || !strings.Contains(out.String(), "-pin-retention") {
		t.Errorf("usage:\n%s", &out)
	}
}

func TestOwnNamespaceComesFromThePod(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	if got := ownNamespace(file); got != defaultNamespace {
		t.Errorf("outside of a Pod the namespace is %q", got)
	}
	if err := os.WriteFile(file, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ownNamespace(file); got != "mine" {
		t.Errorf("namespace = %q, want mine", got)
	}
}
