package nonblock_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillway-dev/spillway/internal/nonblock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns both ends of a connection.
func pair(tb testing.TB) (ours, theirs *net.TCPConn) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		accepted.Close()
		dialled.Close()
	})
	return accepted.(*net.TCPConn), dialled.(*net.TCPConn)
}

// More than any socket holds, both ways at once.
func TestAllBytesPassBothWays(t *testing.T) {
	bare, theirs := pair(t)
	ours := nonblock.Wrap(bare)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	echoed := make(chan error, 1)
	go func() {
		_, err := io.Copy(theirs, theirs)
		echoed <- errors.Join(err, theirs.CloseWrite())
	}()
	wrote := make(chan error, 1)
	go func() {
		n, err := ours.Write(sent)
		if n != len(sent) {
			t.Errorf("wrote %d bytes of %d", n, len(sent))
		}
		wrote <- errors.Join(err, bare.CloseWrite())
	}()
	got, err := io.ReadAll(ours)
	if err := errors.Join(err, <-wrote, <-echoed); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back, not those %d that were sent", len(got), len(sent))
	}
}

func TestWaitsEndAsThoseOfPackageNet(t *testing.T) {
	read := func(c net.Conn) error {
		_, err := c.Read(make([]byte, 1))
		return err
	}
	fill := func(c net.Conn) error {
		_, err := c.Write(make([]byte, 64<<20))
		return err
	}
	cases := map[string]struct {
		wait      func(net.Conn) error
		meanwhile func(ours net.Conn, theirs *net.TCPConn)
		wants     []error
	}{
		"a read at its deadline":           {read, func(c net.Conn, _ *net.TCPConn) { c.SetReadDeadline(time.Now().Add(time.Millisecond)) }, []error{os.ErrDeadlineExceeded}},
		"a read whose deadline has passed": {read, func(c net.Conn, _ *net.TCPConn) { c.SetReadDeadline(time.Unix(1, 0)) }, []error{os.ErrDeadlineExceeded}},
		"a write at its deadline":          {fill, func(c net.Conn, _ *net.TCPConn) { c.SetWriteDeadline(time.Now().Add(time.Millisecond)) }, []error{os.ErrDeadlineExceeded}},
		"a read of what is closed here":    {read, func(c net.Conn, _ *net.TCPConn) { c.Close() }, []error{net.ErrClosed}},
		"a write to what is closed here":   {fill, func(c net.Conn, _ *net.TCPConn) { c.Close() }, []error{net.ErrClosed}},
		"a read of what is closed there":   {read, func(_ net.Conn, o *net.TCPConn) { o.Close() }, []error{io.EOF}},
		"a read of what is reset there":    {read, func(_ net.Conn, o *net.TCPConn) { o.SetLinger(0); o.Close() }, []error{syscall.ECONNRESET}},
		"a write to what is reset there":   {fill, func(_ net.Conn, o *net.TCPConn) { o.SetLinger(0); o.Close() }, []error{syscall.ECONNRESET, syscall.EPIPE}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			bare, theirs := pair(t)
			ours := nonblock.Wrap(bare)
			ended := make(chan error, 1)
			go func() { ended <- tc.wait(ours) }()
			tc.meanwhile(ours, theirs)
			err := <-ended
			if !slices.ContainsFunc(tc.wants, func(want error) bool { return errors.Is(err, want) }) {
				t.Errorf("error = %v, want one of %v", err, tc.wants)
			}
		})
	}
}

func TestWhatIsNoTCPStaysAsItIs(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	defer a.Close()
	if nonblock.Wrap(a) != a {
		t.Error("a pipe was wrapped")
	}
}

// BenchmarkEcho sends 200 bytes there and back, through package net and through this one.
func BenchmarkEcho(b *testing.B) {
	echo := func(b *testing.B, here, there net.Conn) {
		go func() {
			p := make([]byte, 200)
			for {
				n, err := there.Read(p)
				if err != nil {
					return
				}
				if _, err := there.Write(p[:n]); err != nil {
					return
				}
			}
		}()
		p := make([]byte, 200)
		b.ReportAllocs()
		for b.Loop() {
			_, errWrite := here.Write(p)
			_, err := io.ReadFull(here, p)
			if err := errors.Join(errWrite, err); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("net", func(b *testing.B) {
		ours, theirs := pair(b)
		echo(b, ours, theirs)
	})
	b.Run("nonblock", func(b *testing.B) {
		ours, theirs := pair(b)
		echo(b, nonblock.Wrap(ours), nonblock.Wrap(theirs))
	})
}
