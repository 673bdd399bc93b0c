//go:build !unix

package proxy

import "net"

// reusable cannot tell here, so no connection is used twice.
func reusable(net.Conn) bool { return false }
