//go:build linux

package node

import (
	"context"
	"os"
	"strings"
)

// interfaceSettings are of this network namespace alone. A Service without endpoints answers with an ICMP error, which no
// redirect and no rate limit is to hold back.
var interfaceSettings = map[string]string{
	"net/ipv4/ip_forward":              "1",
	"net/ipv4/conf/all/send_redirects": "0",
	"net/ipv4/icmp_ratelimit":          "0",
}

// setUpNetwork gives the namespace its one address. The interface is half of a pair whose other half nobody uses: that it has
// a peer makes it one that works.
func setUpNetwork(ctx context.Context) error {
	for _, command := range []string{
		"link set lo up",
		"link add name node type veth peer name nowhere",
		"address add " + addressPrefix + " dev node",
		"link set nowhere up",
		"link set node up",
		"route add default dev node", // the kubelet looks for one
	} {
		if err := run(ctx, "ip", strings.Fields(command)...); err != nil {
			return err
		}
	}
	for name, value := range interfaceSettings {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
			return err
		}
	}
	return nil
}
