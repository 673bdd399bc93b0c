//go:build unix

package proxy

import (
	"errors"
	"net"
	"syscall"
)

// reusable says whether an idle connection is still open, with nothing to read on it. Whatever a backend sends that nobody
// has asked for would be taken for the answer to the next request.
func reusable(nc net.Conn) bool {
	conn, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var waiting error
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		_, waiting = syscall.Read(int(fd), one[:])
	})
	return err == nil && (errors.Is(waiting, syscall.EAGAIN) || errors.Is(waiting, syscall.EWOULDBLOCK))
}
