package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	reference "github.com/google/go-containerregistry/pkg/name"
)

var (
	label      = regexp.MustCompile(`(org\.opencontainers\.image\.[a-z]+)=(\S+)`)
	buildFlags = regexp.MustCompile(`-trimpath.*-ldflags ["'][^"']*["']`)
)

// TestDockerfileSaysTheSame compares what a Docker build makes with what this program does: nobody runs Docker here.
func TestDockerfileSaysTheSame(t *testing.T) {
	dockerfile, makefile := read(t, "Dockerfile"), read(t, "Makefile")
	inMake := strings.NewReplacer("$(VERSION)", "$VERSION", "'", `"`).Replace(buildFlags.FindString(makefile))
	if diff := cmp.Diff(inMake, buildFlags.FindString(dockerfile)); diff != "" || inMake == "" {
		t.Errorf("flags of the build (-Makefile +Dockerfile):\n%s", diff)
	}
	for _, name := range []string{"manager", "proxy"} {
		t.Run(name, func(t *testing.T) {
			_, stage, found := strings.Cut(dockerfile, "\nFROM scratch AS "+name+"\n")
			if !found {
				t.Fatal("no such stage FROM scratch")
			}
			stage, _, _ = strings.Cut(stage, "\nFROM ")
			for _, want := range []string{"USER " + user, `ENTRYPOINT ["/` + name + `"]`, "COPY --from=build --chmod=555 /out/" + name + " /" + name} {
				if !strings.Contains(stage, want+"\n") {
					t.Errorf("no line %q", want)
				}
			}
			labels := map[string]string{}
			for _, match := range label.FindAllStringSubmatch(stage, -1) {
				labels[match[1]] = strings.Replace(match[2], "$VERSION", version, 1)
			}
			if diff := cmp.Diff(labelsOf(t, name), labels); diff != "" {
				t.Errorf("labels (-image +Dockerfile):\n%s", diff)
			}
		})
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// labelsOf are those of the image that this program makes.
func labelsOf(t *testing.T, name string) map[string]string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(binary, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	tag, err := reference.NewTag("registry/spillway-" + name + ":" + version)
	if err != nil {
		t.Fatal(err)
	}
	image, err := (&program{name: name, binary: binary, tag: tag, arch: "amd64"}).image()
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config.Config.Labels
}
