package main

import (
	"archive/tar"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// write writes the image to a file, in one step: a file that is there is whole.
func (p *program) write(file string) error {
	image, err := p.image()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root := filepath.Join(dir, "layout")
	if err := p.writeLayout(image, root); err != nil {
		return err
	}
	whole := filepath.Join(dir, "whole.tar")
	if err := p.archive(root, whole); err != nil {
		return err
	}
	return os.Rename(whole, file)
}

// writeLayout writes the OCI layout, and Docker's manifest.json, which points to the same blobs.
func (p *program) writeLayout(image v1.Image, root string) error {
	path, err := layout.Write(root, empty.Index)
	if err != nil {
		return err
	}
	err = path.AppendImage(image,
		layout.WithPlatform(v1.Platform{OS: "linux", Architecture: p.arch}),
		layout.WithAnnotations(map[string]string{
			"io.containerd.image.name":          p.tag.Name(),   // ctr image import
			"org.opencontainers.image.ref.name": p.tag.TagStr(), // skopeo, podman
		}))
	if err != nil {
		return err
	}
	manifest, err := dockerManifest(image, p.tag.Name())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "manifest.json"), manifest, 0o644)
}

func dockerManifest(image v1.Image, reference string) ([]byte, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	e := entry{Config: blob(manifest.Config.Digest), RepoTags: []string{reference}}
	for _, layer := range manifest.Layers {
		e.Layers = append(e.Layers, blob(layer.Digest))
	}
	return json.Marshal([]entry{e})
}

// blob is where a layout keeps what has this digest.
func blob(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// archive writes the files of a folder into a tar, sorted by name.
func (p *program) archive(root, file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return addFile(w, filepath.ToSlash(name), 0o644, p.created, content)
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}
