package callerauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// folderPause is how often the folder is read again. A look at a few small files costs less than the rules by which editors,
// mounts and network drives tell of a change.
const folderPause = 2 * time.Second

// KeysFromFolder takes keys from the files of a folder, such as a mounted Secret: a file's name is the caller's, its
// content the key. Files whose names begin with a dot are left out. The folder is read once here, so that a mistake is an
// error at start.
func KeysFromFolder(dir string, log *slog.Logger) (*Keys, error) {
	k := newKeys(folder{dir, log}, log)
	data, err := readFolder(dir)
	if err != nil {
		return nil, err
	}
	k.set(data)
	return k, nil
}

type folder struct {
	path string
	log  *slog.Logger
}

func (f folder) String() string { return "folder " + f.path }

func (f folder) run(ctx context.Context, set func(map[string][]byte)) error {
	again := time.NewTicker(folderPause)
	defer again.Stop()
	readable := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
		data, err := readFolder(f.path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			set(nil)
		case err == nil:
			set(data)
		case readable: // it is there, and often readable again in a moment
			f.log.Error("the callers' keys cannot be read: those known so far hold", "error", err)
		}
		readable = err == nil || errors.Is(err, os.ErrNotExist)
	}
}

// readFolder returns the content of a folder's files by name.
func readFolder(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the callers' keys: %w", err)
	}
	data := map[string][]byte{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			continue
		}
		content, err := readSome(path)
		switch {
		case errors.Is(err, os.ErrNotExist): // it went between the two looks
		case err != nil:
			return nil, fmt.Errorf("read the callers' keys: %w", err)
		default:
			data[entry.Name()] = content
		}
	}
	return data, nil
}

// readSome reads no more of a file than makes it too large for a key.
func readSome(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, 2*maxKey))
}
