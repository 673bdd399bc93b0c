package proxy

import (
	"context"
	"errors"
	"net/netip"
	"slices"
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
	if g.exempts(addr) {
		return true
	}
	for _, form := range embeddings {
		if v4 := form.of(addr); (v4.IsLoopback() || v4.IsLinkLocalUnicast()) && !g.exempts(v4) {
			return false
		}
	}
	return !addr.IsLoopback() && !addr.IsUnspecified() && !addr.IsMulticast() && !addr.IsLinkLocalUnicast()
}

func (g *guard) exempts(addr netip.Addr) bool {
	return slices.ContainsFunc(g.allowed, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// embedding is a form of IPv6 addresses that stand for an IPv4 address, which a translator on the way connects to.
type embedding struct {
	prefix netip.Prefix
	at     [4]int // where in the address the bytes of the other are
}

// embeddings are the forms of IPv4-compatible, translated (SIIT), NAT64 and 6to4 addresses. In the network that is for an
// operator's own NAT64, the prefix may have each of the lengths of RFC 6052.
var embeddings = [...]embedding{
	{netip.MustParsePrefix("::/96"), [4]int{12, 13, 14, 15}},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), [4]int{12, 13, 14, 15}},
	{netip.MustParsePrefix("64:ff9b::/96"), [4]int{12, 13, 14, 15}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{12, 13, 14, 15}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{9, 10, 11, 12}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{7, 9, 10, 11}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{6, 7, 9, 10}},
	{netip.MustParsePrefix("2002::/16"), [4]int{2, 3, 4, 5}},
}

// of returns the IPv4 address that addr stands for in this form; the zero Addr where it has another.
func (e *embedding) of(addr netip.Addr) netip.Addr {
	if !e.prefix.Contains(addr) {
		return netip.Addr{}
	}
	bytes := addr.As16()
	return netip.AddrFrom4([4]byte{bytes[e.at[0]], bytes[e.at[1]], bytes[e.at[2]], bytes[e.at[3]]})
}
