package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	reference "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const version = "v1.2.3"

// pack builds both programs of the product as `make image` does and packs them.
func pack(t *testing.T) (files map[string]string) {
	t.Helper()
	binaries, out := t.TempDir(), t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+version,
		"-o", binaries, "./cmd/manager", "./cmd/proxy")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	files = map[string]string{}
	for _, name := range []string{"manager", "proxy"} {
		if err := run([]string{"-version", version, "-out", out, filepath.Join(binaries, name)}); err != nil {
			t.Fatal(err)
		}
		files[name] = filepath.Join(out, "spillway-"+name+".tar")
	}
	return files
}

// TestImages reads the programs' images back in both forms, looks at what a runtime would see, and runs what is in them.
func TestImages(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: the images hold programs for Linux, which this machine cannot run")
	}
	for name, file := range pack(t) {
		t.Run(name, func(t *testing.T) {
			image := readDocker(t, file)
			if err := validate.Image(image); err != nil {
				t.Error(err)
			}
			inLayout := readLayout(t, file)
			if a, b := digest(t, image.ConfigName), digest(t, inLayout.ConfigName); a != b {
				t.Errorf("Docker's manifest names the configuration %s, the layout %s", a, b)
			}
			checkConfig(t, name, inLayout)
			checkRuns(t, name, unpack(t, inLayout))
		})
	}
}

func readDocker(t *testing.T, file string) v1.Image {
	t.Helper()
	tag, err := reference.NewTag("ghcr.io/spillway-dev/" + strings.TrimSuffix(filepath.Base(file), ".tar") + ":" + version)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatalf("as docker load would read it: %v", err)
	}
	return image
}

func readLayout(t *testing.T, file string) v1.Image {
	t.Helper()
	dir := t.TempDir()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	untar(t, in, dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatalf("as an OCI layout: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the layout holds %d images, want 1", len(manifest.Manifests))
	}
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; !strings.HasSuffix(got, ":"+version) {
		t.Errorf("containerd would name the image %q", got)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func digest(t *testing.T, of func() (v1.Hash, error)) v1.Hash {
	t.Helper()
	hash, err := of()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func checkConfig(t *testing.T, name string, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config.User; got != "65532:65532" {
		t.Errorf("user %q", got)
	}
	if got := config.Config.Entrypoint; len(got) != 1 || got[0] != "/"+name {
		t.Errorf("entrypoint %q", got)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		t.Errorf("for %s/%s", config.OS, config.Architecture)
	}
	if got := config.Created.Unix(); got != 0 {
		t.Errorf("created at second %d: another day gives another image", got)
	}
}

// unpack writes the image's files to a folder.
func unpack(t *testing.T, image v1.Image) (root string) {
	t.Helper()
	root = t.TempDir()
	files := mutate.Extract(image)
	defer files.Close()
	untar(t, files, root)
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files in the image, want the program alone (%v)", len(entries), err)
	}
	return root
}

func untar(t *testing.T, in io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(in); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		content, err := io.ReadAll(r)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, header.FileInfo().Mode()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkRuns starts the program, as root with the image as its whole world and as the image's user, else as it is.
func checkRuns(t *testing.T, name, root string) {
	t.Helper()
	path := filepath.Join(root, name)
	program := exec.Command(path, "--version")
	if os.Getuid() == 0 {
		if err := os.Chmod(root, 0o755); err != nil {
			t.Fatal(err)
		}
		program = &exec.Cmd{Path: "/" + name, Args: []string{name, "--version"}, Dir: "/", Env: []string{}}
		program.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	said, err := program.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if !bytes.Contains(said, []byte(version)) {
		t.Errorf("--version says %q, want %s in it", said, version)
	}
}

func TestTheSameBinaryGivesTheSameBytes(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "proxy")
	if err := os.WriteFile(binary, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	var images [2][]byte
	for i := range images {
		out := t.TempDir()
		if err := run([]string{"-out", out, binary}); err != nil {
			t.Fatal(err)
		}
		var err error
		if images[i], err = os.ReadFile(filepath.Join(out, "spillway-proxy.tar")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(images[0], images[1]) {
		t.Error("two images of one binary differ")
	}
}

func TestRunRefuses(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "proxy")
	if err := os.WriteFile(binary, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args  []string
		epoch string
		want  string
	}{
		"nothing to pack":             {want: "no binary to pack"},
		"a binary that is not there":  {args: []string{filepath.Join(t.TempDir(), "absent")}, want: "no such file"},
		"a version that is no tag":    {args: []string{"-version", "v1+2", binary}, want: "v1+2"},
		"a date that is not a number": {args: []string{binary}, epoch: "yesterday", want: "SOURCE_DATE_EPOCH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SOURCE_DATE_EPOCH", tc.epoch)
			out := t.TempDir()
			err := run(append([]string{"-out", out}, tc.args...))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if left, _ := os.ReadDir(out); len(left) != 0 {
				t.Errorf("%d files are left behind", len(left))
			}
		})
	}
}

func TestArchitectureIsNoted(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "proxy")
	if err := os.WriteFile(binary, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-version", version, "-arch", "arm64", "-out", dir, binary}); err != nil {
		t.Fatal(err)
	}
	image := readDocker(t, filepath.Join(dir, "spillway-proxy.tar"))
	raw, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Architecture string }
	if err := json.Unmarshal(raw, &config); err != nil || config.Architecture != "arm64" {
		t.Errorf("architecture %q (%v)", config.Architecture, err)
	}
}
