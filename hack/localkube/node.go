package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// nodeModule is the directory of the module that nodeBinaries are built in.
const nodeModule = "hyper"

// nodeBinaries is one: see the module's own comment.
var nodeBinaries = []binary{{"hyper", "."}}

// nodePrograms are the names that hyper answers to.
var nodePrograms = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet",
}

// findNode returns a directory in which every program of a node has its name. KUBEBUILDER_ASSETS has no say here: it names
// a control plane, not a node.
func findNode(ctx context.Context, stderr io.Writer) (string, error) {
	r, err := newRecipe(ctx, nodeModule, nodeBinaries)
	if err != nil {
		return "", err
	}
	dir, err := r.cached(ctx, stderr)
	if err != nil {
		return "", err
	}
	for _, name := range nodePrograms {
		if err := os.Symlink("hyper", filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return dir, nil
}
