package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// binary is one program of the control plane.
type binary struct {
	Name    string // file name, as envtest expects it
	Package string // the main package that it is built from; also a tool directive of go.mod
}

// binaries are built in this order: the small one first, so that the first result shows early.
var binaries = []binary{
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
}

// toolchain is what of "go env" decides what a binary contains.
type toolchain struct {
	GOVERSION, GOOS, GOARCH, GOAMD64, GOARM64, GOEXPERIMENT string
}

// recipe is everything that decides the contents of the binaries: same recipe, same key, same cache directory.
type recipe struct {
	module    string // directory of the module, where "go build" runs
	key       string // hex, a prefix of a sha256
	buildArgs []string
	binaries  []binary
}

// buildEnv is added to the environment of every go command. GOFLAGS and GOWORK of the caller do not apply: the same key
// has to mean the same binary for everybody.
var buildEnv = []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off"}

var kubernetesRequirement = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)\b`)

// newRecipe reads go.mod and go.sum in module, a directory, and asks the go command for its version. A main package of the
// module's own decides the contents too, so its source is read as well.
func newRecipe(ctx context.Context, module string, binaries []binary) (recipe, error) {
	mod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return recipe{}, errors.New("no go.mod here; run it as: go run -C hack/localkube . COMMAND")
	}
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return recipe{}, err
	}
	args, err := buildArgs(mod)
	if err != nil {
		return recipe{}, err
	}
	tc, err := currentToolchain(ctx)
	if err != nil {
		return recipe{}, err
	}
	own, err := ownSource(module, binaries)
	if err != nil {
		return recipe{}, err
	}
	ingredients := append([]any{string(mod), string(sum), tc, args, buildEnv, binaries}, own...)
	return recipe{module: module, key: cacheKey(ingredients...), buildArgs: args, binaries: binaries}, nil
}

// buildArgs are the arguments of "go build" before -o. The version string is stamped in because kubectl and client-go
// refuse a server without one; commit and date are constants, so that the binaries are reproducible.
func buildArgs(mod []byte) ([]string, error) {
	m := kubernetesRequirement.FindSubmatch(mod)
	if m == nil {
		return nil, errors.New("go.mod does not require k8s.io/kubernetes: not the module of hack/localkube")
	}
	var ld strings.Builder
	ld.WriteString("-s -w")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, kv := range []struct{ name, value string }{
			{"gitVersion", string(m[1])},
			{"gitMajor", string(m[2])},
			{"gitMinor", string(m[3])},
			{"gitCommit", strings.Repeat("0", 40)},
			{"gitTreeState", "clean"},
			{"buildDate", "1970-01-01T00:00:00Z"},
		} {
			fmt.Fprintf(&ld, " -X %s.%s=%s", pkg, kv.name, kv.value)
		}
	}
	return []string{"-trimpath", "-ldflags", ld.String()}, nil
}

func currentToolchain(ctx context.Context) (toolchain, error) {
	var tc toolchain
	out, err := exec.CommandContext(ctx, "go", "env", "-json",
		"GOVERSION", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT").Output()
	if err != nil {
		return tc, fmt.Errorf("go env: %w", err)
	}
	if err := json.Unmarshal(out, &tc); err != nil {
		return tc, fmt.Errorf("go env: %w", err)
	}
	return tc, nil
}

// ownSource is the text of each main package that is the module's root itself.
func ownSource(module string, binaries []binary) ([]any, error) {
	var own []any
	for _, b := range binaries {
		if b.Package != "." {
			continue
		}
		text, err := os.ReadFile(filepath.Join(module, "main.go"))
		if err != nil {
			return nil, err
		}
		own = append(own, string(text))
	}
	return own, nil
}

// cacheKey hashes all that decides the binaries' contents. Each ingredient is length-prefixed by JSON's quoting, so that no
// two different inputs look alike.
func cacheKey(ingredients ...any) string {
	h := sha256.New()
	// Encoding strings and structs of strings cannot fail, and a hash never refuses a write.
	_ = json.NewEncoder(h).Encode(ingredients)
	return hex.EncodeToString(h.Sum(nil))[:16]
}
