package nonblock

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// Wrap returns the connection with cheaper reads and writes; one that is not TCP as it is. Deadlines, Close and all else
// are those of the connection within. As with any net.Conn, one goroutine may read while another one writes.
func Wrap(nc net.Conn) net.Conn {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nc
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nc // it is closed, and will say so
	}
	c := &conn{TCPConn: tcp, raw: raw}
	c.reading.once, c.writing.once = c.reading.read, c.writing.write
	return c
}

type conn struct {
	*net.TCPConn
	raw              syscall.RawConn
	reading, writing transfer
}

// transfer is a read or a write that is under way. There is one for each direction, so that none is allocated.
type transfer struct {
	once func(fd uintptr) bool // the method read or write
	p    []byte
	n    int
	err  error
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return c.reading.run(p, c.raw.Read)
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return c.writing.run(p, c.raw.Write)
}

// run lets the poller call once whenever the socket may be ready, until it is done.
func (t *transfer) run(p []byte, poll func(func(fd uintptr) bool) error) (int, error) {
	t.p, t.n, t.err = p, 0, nil
	err := poll(t.once)
	if err == nil {
		err = t.err
	}
	t.p = nil
	return t.n, err
}

// read reports whether it is done: with some bytes, the end or an error.
func (t *transfer) read(fd uintptr) bool {
	n, errno := try(syscall.SYS_READ, fd, t.p)
	switch {
	case errno == syscall.EAGAIN:
		return false
	case errno != 0:
		t.err = opError("read", errno)
	case n == 0:
		t.err = io.EOF
	}
	t.n = n
	return true
}

// write reports whether it is done: with all bytes, or an error.
func (t *transfer) write(fd uintptr) bool {
	for t.n < len(t.p) {
		n, errno := try(syscall.SYS_WRITE, fd, t.p[t.n:])
		if errno == syscall.EAGAIN {
			return false
		}
		if errno != 0 {
			t.err = opError("write", errno)
			return true
		}
		t.n += n
	}
	return true
}

// try makes one system call that does not block, and does not tell the scheduler of it.
func try(call, fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) //nolint:gosec // see the package comment
		switch errno {
		case syscall.EINTR:
			continue
		case 0:
			return int(n), 0
		}
		return 0, errno
	}
}

// opError wraps a system call's error as package net does.
func opError(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, errno)}
}
