package standalone

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MaxFile bounds a manifest file, in bytes.
const MaxFile = 32 << 20

// folder is what is known of a folder of manifests: each file as it was read last, and the objects of it that hold.
type folder struct {
	dir   string
	files map[string]*file
}

// file is one manifest file.
type file struct {
	name     string
	data     []byte // as read last; nil where it could not be read
	objects  []Object
	messages []Message
}

func newFolder(dir string) *folder { return &folder{dir: dir, files: map[string]*file{}} }

// read reads the folder again and says whether anything is different. An error means that the folder itself could not be
// read: what was known of it stays.
func (f *folder) read() (changed bool, err error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return false, fmt.Errorf("read the folder of manifests: %w", err)
	}
	seen := map[string]bool{}
	for _, entry := range entries {
		name := entry.Name()
		if !IsManifest(name) {
			continue
		}
		data, err := readFile(filepath.Join(f.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went in the meantime, or it is a dangling link
		}
		seen[name] = true
		if f.update(name, data, err) {
			changed = true
		}
	}
	for name := range f.files {
		if !seen[name] {
			delete(f.files, name)
			changed = true
		}
	}
	return changed, nil
}

// IsManifest says whether a file of the folder is read. Hidden files are editors' and the kubelet's own.
func IsManifest(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return !strings.HasPrefix(name, ".") && (ext == ".yaml" || ext == ".yml" || ext == ".json")
}

// readFile reads a regular file whole; anything else, such as a pipe, could block for ever.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, MaxFile+1))
	if err == nil && len(data) > MaxFile {
		return nil, fmt.Errorf("larger than %d MiB", MaxFile>>20)
	}
	return data, err
}

// update takes in what a file says now and reports whether that is new.
func (f *folder) update(name string, data []byte, readErr error) (changed bool) {
	was := f.files[name]
	if readErr != nil {
		data = nil
	} else if data == nil {
		data = []byte{}
	}
	if was != nil && (was.data == nil) == (data == nil) && bytes.Equal(was.data, data) {
		return false
	}
	is := &file{name: name, data: data}
	broken := true
	if readErr == nil {
		is.objects, is.messages, broken = Decode(name, data, DefaultNamespace)
	} else {
		is.messages = []Message{{File: name, Text: "The file cannot be read: " + reasonOf(readErr) + "."}}
	}
	if broken && was != nil {
		is.keep(was.objects)
	}
	f.files[name] = is
	return true
}

// reasonOf is the cause of a file error without the path, which the message already names.
func reasonOf(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// keep adds the objects that a broken file said before and does not say now, where they were.
func (is *file) keep(before []Object) {
	said := map[string]bool{}
	for _, o := range is.objects {
		said[o.identity()] = true
	}
	kept := 0
	for _, o := range before {
		if !said[o.identity()] {
			is.objects = append(is.objects, o)
			kept++
		}
	}
	slices.SortStableFunc(is.objects, func(a, b Object) int { return cmp.Compare(a.Line, b.Line) })
	if kept > 0 {
		is.messages = append(is.messages, Message{File: is.name, Text: fmt.Sprintf(
			"While the file cannot be read whole, what it held before and no longer says stays in force; objects: %d.", kept)})
	}
}

// collect returns what holds of all files.
func (f *folder) collect() *Collection {
	var objects []Object
	var messages []Message
	for _, file := range f.sorted() {
		objects = append(objects, file.objects...)
		messages = append(messages, file.messages...)
	}
	c := Collect(objects)
	c.Snapshot.Options.Standalone = true
	c.Messages = append(messages, c.Messages...)
	return c
}

func (f *folder) sorted() []*file {
	files := make([]*file, 0, len(f.files))
	for _, file := range f.files {
		files = append(files, file)
	}
	slices.SortFunc(files, func(a, b *file) int { return cmp.Compare(a.name, b.name) })
	return files
}
