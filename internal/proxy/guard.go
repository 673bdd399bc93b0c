package proxy

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
)

// errForbiddenAddress says that a backend's name led to an address that backends must not have.
var errForbiddenAddress = errors.New("address refused by the dial guard")

// guard keeps routes from reaching into the host's or the cloud's inside. It judges the address that is dialled, after
// name resolution, so that a name cannot change its mind in between.
type guard struct{ allowed []netip.Prefix }

// check is a net.Dialer's ControlContext: it runs before each connection is made.
func (g *guard) check(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || !g.allows(target.Addr()) {
		return errForbiddenAddress
	}
	return nil
}

func (g *guard) allows(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, prefix := range g.allowed {
		if prefix.Contains(addr) {
			return true
		}
	}
	return !addr.IsLoopback() && !addr.IsUnspecified() && !addr.IsMulticast() &&
		!addr.IsLinkLocalUnicast() && !addr.IsInterfaceLocalMulticast()
}
