//go:build linux

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ownFolders are empty and in memory inside of the namespaces: what the node writes there is gone with it.
var ownFolders = []string{"/run", "/var/log", "/var/lib"}

// kubeletSysctls are settings of the whole machine that the kubelet writes where they differ. It is shown files that already
// say what it wants.
var kubeletSysctls = map[string]string{
	"vm/overcommit_memory": "1",
	"vm/panic_on_oom":      "0",
	"kernel/panic":         "10",
	"kernel/panic_on_oops": "1",
}

// isolate gives this process's mount namespace its own view of the file system.
func isolate() error {
	mounts := []mount{
		{target: "/", flags: syscall.MS_REC | syscall.MS_PRIVATE}, // nothing that follows is seen outside
		{source: "proc", target: "/proc", kind: "proc"},
	}
	for _, folder := range ownFolders {
		mounts = append(mounts, mount{source: "tmpfs", target: folder, kind: "tmpfs"})
	}
	for _, m := range mounts {
		if err := m.do(); err != nil {
			return err
		}
	}
	for name, value := range kubeletSysctls {
		file := filepath.Join("/run", strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := (mount{source: file, target: "/proc/sys/" + name, flags: syscall.MS_BIND}).do(); err != nil {
			return err
		}
	}
	// The kubelet mounts volumes that containers have to see.
	if err := (mount{target: "/", flags: syscall.MS_REC | syscall.MS_SHARED}).do(); err != nil {
		return err
	}
	return syscall.Sethostname([]byte(Name))
}

// mount is one call of mount(2).
type mount struct {
	source, target, kind string
	flags                uintptr
}

func (m mount) do() error {
	if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.source, m.target, err)
	}
	return nil
}
