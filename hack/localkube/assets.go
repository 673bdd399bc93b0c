package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// findAssets returns the directory that holds etcd, kube-apiserver and kubectl: KUBEBUILDER_ASSETS where it is set, else
// the cache, where what is missing or damaged is built first.
func findAssets(ctx context.Context, stderr io.Writer) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir, checkGiven(dir, stderr)
	}
	r, err := newRecipe(ctx, ".", binaries)
	if err != nil {
		return "", err
	}
	return r.cached(ctx, stderr)
}

// cached returns the cache directory of r, where what is missing or damaged is built first.
func (r recipe) cached(ctx context.Context, stderr io.Writer) (string, error) {
	root, err := cacheRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, r.key)
	return dir, ensure(ctx, dir, r.binaries, newProgress(stderr), r.build)
}

// checkGiven says which binary of a directory that the caller named is missing. kubectl may come from PATH: nothing here
// starts it, and many a set of envtest binaries lacks it.
func checkGiven(dir string, stderr io.Writer) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("KUBEBUILDER_ASSETS=%s: must be an absolute path", dir)
	}
	var problems []string
	for _, b := range binaries {
		path := filepath.Join(dir, b.Name)
		info, err := os.Stat(path)
		switch {
		case err == nil && executable(info):
			continue
		case b.Name == "kubectl":
			if found, lookErr := exec.LookPath(b.Name); lookErr == nil {
				fmt.Fprintf(stderr, "localkube: no usable kubectl in KUBEBUILDER_ASSETS, using %s\n", found)
				continue
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			problems = append(problems, b.Name+" is missing")
		case err != nil:
			problems = append(problems, b.Name+" cannot be read: "+err.Error())
		default:
			problems = append(problems, b.Name+" is not executable")
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("KUBEBUILDER_ASSETS=%s: %s (unset it to build the binaries)", dir, strings.Join(problems, ", "))
	}
	return nil
}

// buildFunc builds one binary into the file out. On an error it may leave a part of the file behind.
type buildFunc func(ctx context.Context, b binary, out string, p *progress) error

// ensure completes dir with want. Of several processes one builds, the others wait and then find the result.
func ensure(ctx context.Context, dir string, want []binary, p *progress, build buildFunc) error {
	missing, err := lacking(dir, want)
	if err != nil || len(missing) == 0 {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	release, err := lock(ctx, dir+".lock", func() { p.say("another process is building; waiting for it") })
	if err != nil {
		return err
	}
	defer release()
	if missing, err = lacking(dir, want); err != nil { // the other process may have built them meanwhile
		return err
	}
	for i, b := range missing {
		err := p.watch(fmt.Sprintf("%s (%d of %d)", b.Name, i+1, len(missing)), func() error {
			return buildInto(ctx, dir, b, p, build)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// buildInto builds beside the cache directory's files and moves the result in when it is whole; the manifest comes last.
// An interrupted build leaves nothing that looks like a binary, and those that were finished before it count.
func buildInto(ctx context.Context, dir string, b binary, p *progress, build buildFunc) error {
	temp := filepath.Join(dir, ".building") // one name: whoever holds the lock owns it, and a killed process's rest goes here
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.Mkdir(temp, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	built, final := filepath.Join(temp, b.Name), filepath.Join(dir, b.Name)
	if err := build(ctx, b, built, p); err != nil {
		return err
	}
	e, err := measure(built)
	if err != nil {
		return err
	}
	m, err := readManifest(dir)
	if err != nil {
		return err
	}
	if err := os.Rename(built, final); err != nil {
		return err
	}
	m[b.Name] = e
	return m.write(dir)
}

// clean removes every key's directory but the current ones'; a directory that is being built in stays.
func clean(ctx context.Context, stderr io.Writer) error {
	root, err := cacheRoot()
	if err != nil {
		return err
	}
	assets, err := newRecipe(ctx, ".", binaries)
	if err != nil {
		return err
	}
	node, err := newRecipe(ctx, nodeModule, nodeBinaries)
	if err != nil {
		return err
	}
	return removeOthers(root, []string{assets.key, node.key}, stderr)
}

func removeOthers(root string, keep []string, stderr io.Writer) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || slices.Contains(keep, e.Name()) {
			continue
		}
		dir := filepath.Join(root, e.Name())
		release, err := tryLock(dir + ".lock")
		if errors.Is(err, errLocked) {
			fmt.Fprintf(stderr, "localkube: kept %s, a build is running there\n", dir)
			continue
		}
		if err != nil {
			return err
		}
		err = errors.Join(os.RemoveAll(dir), os.Remove(dir+".lock"))
		release()
		if err != nil {
			return err
		}
		fmt.Fprintf(stderr, "localkube: removed %s\n", dir)
	}
	return nil
}
