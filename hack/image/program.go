package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"time"

	reference "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is nobody in particular: not root, and the same number as in the chart.
const user = "65532:65532"

// program is a binary that becomes an image.
type program struct {
	name    string // of the file in the image's root
	binary  string // path of the file here
	tag     reference.Tag
	arch    string // as Go names it
	created time.Time
}

// image is the program in a layer, and what a runtime has to know of it.
func (p *program) image() (v1.Image, error) {
	layer, err := p.layer()
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: p.created}, CreatedBy: "hack/image: COPY " + p.name + " /"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", p.arch, v1.Time{Time: p.created}
	config.Config = v1.Config{
		User:       user,
		Entrypoint: []string{"/" + p.name},
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "spillway-" + p.name,
			"org.opencontainers.image.version":  p.tag.TagStr(),
			"org.opencontainers.image.source":   "https://github.com/spillway-dev/spillway",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// layer holds the binary in the root folder, owned by root and written by nobody.
func (p *program) layer() (v1.Layer, error) {
	content, err := os.ReadFile(p.binary)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := addFile(w, p.name, 0o555, p.created, content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// addFile writes one file of root's into a tar.
func addFile(w *tar.Writer, name string, mode int64, modified time.Time, content []byte) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, ModTime: modified, Size: int64(len(content)), Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
