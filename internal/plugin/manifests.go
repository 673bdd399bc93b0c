package plugin

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/standalone"
)

// manifests are the objects of some files that the compiler knows, and what is wrong with the files. They are read by the
// code of a proxy that runs without a cluster.
type manifests struct {
	namespace string // of objects that name none
	objects   []standalone.Object
	messages  []standalone.Message
}

// read takes in a file, the manifests of a folder, or standard input ("-").
func (m *manifests) read(name string, in io.Reader) error {
	if name == "-" {
		return m.readFrom("stdin", in)
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	files := []string{name}
	if info.IsDir() {
		if files, err = manifestsIn(name); err != nil {
			return err
		}
	}
	for _, file := range files {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		err = errors.Join(m.readFrom(file, opened), opened.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// manifestsIn lists the files of a folder that a proxy would read, sorted.
func manifestsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && standalone.IsManifest(e.Name()) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no .yaml, .yml or .json file", dir)
	}
	return files, nil
}

func (m *manifests) readFrom(name string, in io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(in, standalone.MaxFile+1))
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", name, err)
	case len(data) > standalone.MaxFile:
		return fmt.Errorf("%s is larger than %d MiB", name, standalone.MaxFile>>20)
	}
	objects, messages, _ := standalone.Decode(name, data, m.namespace)
	m.objects, m.messages = append(m.objects, objects...), append(m.messages, messages...)
	return nil
}

// collect is what the compiler reads. In a cluster a pin is created when it is applied, which is now.
func (m *manifests) collect(withoutCluster bool, now time.Time) *standalone.Collection {
	c := standalone.Collect(m.objects)
	c.Snapshot.Options.Standalone = withoutCluster
	for _, pin := range c.Snapshot.Pins {
		if pin.CreationTimestamp.IsZero() && !withoutCluster {
			pin.CreationTimestamp = metav1.NewTime(now)
		}
	}
	c.Messages = append(m.messages, c.Messages...)
	return c
}
