//go:build linux

package node

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cgroupPrefix is followed by the process id of who made the control group.
const cgroupPrefix = "spillway-node-"

// cgroupLinger bounds how long the processes of a node that was killed may keep its control groups busy.
const cgroupLinger = 10 * time.Second

// cgroup is a control group of one name in each hierarchy that is mounted: one with cgroup v2, several with v1.
type cgroup struct {
	name string
	dirs []string
}

// newCgroup makes it, and removes those of earlier runs that were killed.
func newCgroup(name string) (*cgroup, error) {
	hierarchies, err := cgroupMounts()
	if err != nil {
		return nil, err
	}
	removeOrphans(hierarchies)
	group := &cgroup{name: name}
	for _, hierarchy := range hierarchies {
		dir := filepath.Join(hierarchy, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, errors.Join(err, group.remove())
		}
		group.dirs = append(group.dirs, dir)
		if err := inheritCPUs(hierarchy, dir); err != nil {
			return nil, errors.Join(err, group.remove())
		}
	}
	return group, nil
}

// cgroupMounts reads the mount points of all hierarchies.
func cgroupMounts() ([]string, error) {
	file, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var mounts []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && strings.HasPrefix(fields[2], "cgroup") {
			mounts = append(mounts, fields[1])
		}
	}
	if len(mounts) == 0 {
		return nil, errors.New("no control groups are mounted")
	}
	slices.Sort(mounts)
	return slices.Compact(mounts), nil
}

// inheritCPUs fills a group of a v1 cpuset hierarchy, which starts with no processors at all.
func inheritCPUs(hierarchy, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		if own, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(strings.TrimSpace(string(own))) > 0 {
			continue // v2, or another hierarchy, or filled already
		}
		value, err := os.ReadFile(filepath.Join(hierarchy, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the root of v2 has none, and needs none
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the group and all below it, waiting for processes that are still ending.
func (g *cgroup) remove() error {
	deadline := time.Now().Add(cgroupLinger)
	for {
		var busy []error
		for _, dir := range g.dirs {
			busy = append(busy, removeTree(dir))
		}
		err := errors.Join(busy...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// removeTree removes control groups, deepest first. Their files cannot be removed, and go with them.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(dir)
}

// removeOrphans removes the empty groups of processes that are no more. What cannot be removed now is in nobody's way.
func removeOrphans(hierarchies []string) {
	for _, hierarchy := range hierarchies {
		found, _ := filepath.Glob(filepath.Join(hierarchy, cgroupPrefix+"*"))
		for _, dir := range found {
			pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), cgroupPrefix))
			if err != nil {
				continue
			}
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); errors.Is(err, fs.ErrNotExist) {
				_ = removeTree(dir)
			}
		}
	}
}
