package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// errLocked says that another process holds the lock.
var errLocked = errors.New("locked by another process")

// lock waits for the lock file at path and returns its release. waiting is called once, when the first try finds the
// lock taken. The kernel drops the lock of a process that dies, so no stale lock is left behind.
func lock(ctx context.Context, path string, waiting func()) (release func(), err error) {
	told := false
	for {
		release, err = tryLock(path)
		if !errors.Is(err, errLocked) {
			return release, err
		}
		if !told {
			told = true
			waiting()
		}
		// flock cannot be waited for together with a context, so it is asked again.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// tryLock returns errLocked where another process holds the lock.
func tryLock(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// "clean" removes lock files while it holds them: a lock on a file that has no name any more excludes nobody.
	held, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if named, err := os.Stat(path); err != nil || !os.SameFile(held, named) {
		f.Close()
		return nil, errLocked
	}
	return func() { f.Close() }, nil
}
