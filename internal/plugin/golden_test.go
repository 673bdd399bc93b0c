package plugin

import (
	"strings"
	"testing"
)

// TestTranscripts runs command lines on one small world. Each case begins with the world as it was.
func TestTranscripts(t *testing.T) {
	const ns = "-n=sirens-echo"
	cases := map[string][][]string{
		"status": {
			{"status", ns}, {"status", "default", ns, "-o", "wide"}, {"status", "-A"},
			{"status", "-n", "empty"}, {"status", "absent", ns}, {"status", "stray", ns, "-o", "yaml"},
			{"status", "default", "-A"}, {"status", "-o", "xml"}, {"status", "default", "stray"}, {"status", "--wide"},
		},
		"pins": {
			{"pins", ns}, {"pins", "-A", "-o", "wide"}, {"pins", "-n", "empty"}, {"pins", "default"},
		},
		"explain": {
			{"explain", "default", ns},
			{"explain", "default", ns, "--prefer", "tower", "--saturated", "hosted"},
			{"explain", "default", ns, "--at", "00:30", "--prompt-tokens", "60000", "--prefer", "nobody"},
			{"explain", "default", ns, "--saturated", "attic,hosted", "-o", "wide"},
			{"explain", "default", ns, "--saturated", "nobody"},
			{"explain", "stray", ns},
			{"explain", "young", "-n", "work", "-o", "yaml"},
			{"explain", "default", ns, "--at", "noon"},
			{"explain", ns},
		},
		"pin": {
			{"pin", "default", "--backend", "attic", "--for", "3h", "--reason", "a game", ns},
			{"pin", "default", "--backend", "attic", "--for", "4h", ns},
			{"pin", "default", "--backend", "attic", "--for", "4h", ns},
			{"pin", "default", "--backend", "attic", "--until", "23:00", "--at", "22:00", ns},
			{"pins", ns},
			{"pin", "--all", "--backend", "tower", "--mode", "avoid", "--at", "20:00", "--until", "23:59", "--name", "tomorrow", ns},
			{"pin", "-l", "team=red", "--backend", "hosted", "--mode", "only", "--for", "30m", ns},
			{"pin", "default", "--backend", "tower", "--mode", "avoid", "--for", "1h", "--name", "last-week", ns},
			{"pin", "default", "--backend", "attic", "--for", "200h", "--name", "long", ns},
			{"pin", "default", "--backend", "hosted", "--for", "1h", "--name", "dry", "--dry-run", "-o", "yaml", ns},
		},
		"pin-refused": {
			{"pin", "default", "--backend", "towr", "--for", "3h", ns},
			{"pin", "absent", "--backend", "tower", "--for", "3h", ns},
			{"pin", "default", "--backend", "tower", ns},
			{"pin", "default", "--for", "3h", ns},
			{"pin", "--backend", "tower", "--for", "3h", ns},
			{"pin", "default", "--all", "--backend", "tower", "--for", "3h", ns},
			{"pin", "default", "--backend", "tower", "--for", "3 hours", ns},
			{"pin", "default", "--backend", "tower", "--until", "2026-08-13 21:00", ns},
			{"pin", "default", "--backend", "tower", "--until", "later", ns},
			{"pin", "default", "--backend", "tower", "--at", "2026-08-13 20:00", "--for", "1h", ns},
			{"pin", "default", "--backend", "tower", "--for", "3h", "--mode", "never", ns},
			{"pin", "-l", "a==b==c", "--backend", "tower", "--for", "3h", ns},
		},
		"unpin": {
			{"unpin", "default", ns},
			{"unpin", "default", ns},
			{"unpin", "pin/reds", "route/stray", ns},
			{"unpin", "absent", ns},
			{"unpin", "pin/absent", ns},
			{"unpin", ns},
			{"unpin", "--all", ns},
		},
		"unpin-all": {
			{"unpin", "--all", ns}, {"pins", ns},
		},
		"complete": {
			{"__complete", "status", ns, ""},
			{"__complete", "pin", ns, "default", ""},
			{"__complete", "pin", ns, "stray", "--backend", ""},
			{"__complete", "explain", ns, "default", "--prefer", ""},
			{"__complete", "unpin", ns, ""},
			{"__complete", "status", "-o", ""},
			{"__complete", "pin", "--mode", ""},
		},
	}
	for name, lines := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, world(t)...)
			var all []string
			for _, line := range lines {
				all = append(all, r.transcript(line...))
			}
			got := strings.Join(all, "\n")
			for _, secret := range []string{"tower.lan", "example.com", "deepseek", ".invalid"} {
				if strings.Contains(got, secret) {
					t.Errorf("the output shows %q, which is the spec's", secret)
				}
			}
			compareGolden(t, name, got)
		})
	}
}

// kubectl starts a plugin's completion by its own name.
func TestTheCompleterIsTheProgramUnderAnotherName(t *testing.T) {
	r := newRig(t, world(t)...)
	if code := r.cli.run(t.Context(), []string{"/usr/bin/kubectl_complete-spillway", "status", "-n=sirens-echo", "d"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, r.err)
	}
	if got := r.out.String(); !strings.HasPrefix(got, "default\n") {
		t.Errorf("got %q", got)
	}
}

// Every command has examples, and each of them is a command line that the program understands.
func TestExamplesAreUnderstood(t *testing.T) {
	r := newRig(t)
	for _, cmd := range append(r.cli.command().Commands(), r.cli.command()) {
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			continue
		}
		seen := 0
		for line := range strings.Lines(cmd.Example) {
			_, line, ok := strings.Cut(strings.TrimSpace(line), "kubectl spillway ")
			if !ok {
				continue
			}
			seen++
			root := r.cli.command()
			found, rest, err := root.Find(words(line))
			if err == nil {
				err = found.ParseFlags(rest)
			}
			if err == nil {
				err = found.ValidateArgs(found.Flags().Args())
			}
			if err != nil || found == root {
				t.Errorf("%s: %q: %v", cmd.Name(), line, err)
			}
		}
		if seen == 0 {
			t.Errorf("%s has no example", cmd.Name())
		}
	}
}

// words splits a line as a shell does, as far as double quotes go.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}
