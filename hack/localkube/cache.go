package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const manifestName = "manifest.json"

// entry proves one cached binary: a file of another size or sum is damaged.
type entry struct {
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// manifest lists the finished binaries of one cache directory by name. It is written after the binary that it lists,
// so a binary without an entry is unfinished, whatever its file looks like.
type manifest map[string]entry

// cacheRoot is ${XDG_CACHE_HOME:-~/.cache}/spillway/localkube; it holds one directory per key.
func cacheRoot() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" || !filepath.IsAbs(base) { // the XDG specification: relative paths are invalid and to be ignored
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for the cache, set XDG_CACHE_HOME: %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "spillway", "localkube"), nil
}

// readManifest returns an empty manifest where there is none or where it cannot be decoded: both mean "nothing proven".
func readManifest(dir string) (manifest, error) {
	raw, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, nil
	}
	if err != nil {
		return nil, err
	}
	m := manifest{}
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return manifest{}, nil
	}
	return m, nil
}

// write puts the manifest in place in one step, so that a reader sees the old or the new one, never half of it.
func (m manifest) write(dir string) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, manifestName+".tmp")
	if err := os.WriteFile(temp, append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, manifestName))
}

// lacking returns those of want that dir does not hold whole, in build order: no entry in the manifest, no file, another
// size, another sum, or not executable.
func lacking(dir string, want []binary) ([]binary, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	var missing []binary
	for _, b := range want {
		proof, listed := m[b.Name]
		if !listed || !intact(filepath.Join(dir, b.Name), proof) {
			missing = append(missing, b)
		}
	}
	return missing, nil
}

// intact reads the file only where its size is right. Whatever keeps it from being read makes it not intact.
func intact(path string, want entry) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() != want.Size || !executable(info) {
		return false
	}
	got, err := measure(path)
	return err == nil && got == want
}

func measure(path string) (entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return entry{}, err
	}
	return entry{Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

func executable(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
