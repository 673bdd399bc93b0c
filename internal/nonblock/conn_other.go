//go:build !linux

package nonblock

import "net"

// Wrap returns the connection as it is.
func Wrap(nc net.Conn) net.Conn { return nc }
