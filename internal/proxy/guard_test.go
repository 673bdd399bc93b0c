package proxy

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestGuardJudgesTheAddressThatIsDialled(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	cases := map[string]struct {
		address string
		allowed []netip.Prefix
		want    bool
	}{
		"a public address":                    {address: "203.0.113.7:443", want: true},
		"a private address":                   {address: "10.1.2.3:80", want: true},
		"a unique local IPv6 address":         {address: "[fd00::2]:8000", want: true},
		"loopback":                            {address: "127.0.0.1:80"},
		"IPv6 loopback":                       {address: "[::1]:80"},
		"loopback as an IPv6 address":         {address: "[::ffff:127.0.0.1]:80"},
		"the cloud's metadata":                {address: "169.254.169.254:80"},
		"the cloud's metadata, mapped":        {address: "[::ffff:169.254.169.254]:80"},
		"IPv6 link-local with a zone":         {address: "[fe80::1%eth0]:80"},
		"unspecified":                         {address: "0.0.0.0:80"},
		"IPv6 unspecified":                    {address: "[::]:80"},
		"multicast":                           {address: "224.0.0.1:80"},
		"no address":                          {address: "tower.lan:80"},
		"loopback where it is allowed":        {address: "127.0.0.1:80", allowed: loopback, want: true},
		"mapped loopback where it is allowed": {address: "[::ffff:127.0.0.1]:80", allowed: loopback, want: true},
		"link-local where loopback is":        {address: "169.254.169.254:80", allowed: loopback},
		"IPv4-compatible metadata":            {address: "[::169.254.169.254]:80"},
		"translated metadata":                 {address: "[::ffff:0:169.254.169.254]:80"},
		"metadata behind NAT64":               {address: "[64:ff9b::a9fe:a9fe]:80"},
		"loopback behind NAT64":               {address: "[64:ff9b::127.0.0.1]:80"},
		"metadata behind an own NAT64":        {address: "[64:ff9b:1:2::169.254.169.254]:80"},
		"the same, by a prefix of 64 bits":    {address: "[64:ff9b:1:2:a9:fea9:fe00:0]:80"},
		"the same, by a prefix of 56 bits":    {address: "[64:ff9b:1:a9:fe:a9fe::]:80"},
		"the same, by a prefix of 48 bits":    {address: "[64:ff9b:1:a9fe:a9:fe00::]:80"},
		"metadata by 6to4":                    {address: "[2002:a9fe:a9fe::1]:80"},
		"loopback by 6to4, where it is let":   {address: "[2002:7f00:1::1]:80", allowed: loopback, want: true},
		"a public address behind NAT64":       {address: "[64:ff9b::203.0.113.7]:443", want: true},
		"the same behind an own NAT64":        {address: "[64:ff9b:1::203.0.113.7]:443", want: true},
		"a public address by 6to4":            {address: "[2002:cb00:7107::1]:443", want: true},
		"NAT64 where its network is allowed": {address: "[64:ff9b::a9fe:a9fe]:80", want: true,
			allowed: []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := guard{allowed: tc.allowed}
			if got := g.check(t.Context(), "tcp", tc.address, nil) == nil; got != tc.want {
				t.Errorf("allowed: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestSharesOfABudget(t *testing.T) {
	began := time.Unix(1000, 0)
	cases := map[string]struct {
		total, passed time.Duration
		others        int
		want          time.Duration
	}{
		"no budget, no share":                  {others: 2},
		"alone, all that is left":              {total: 10 * time.Second, passed: 4 * time.Second, want: 6 * time.Second},
		"a tenth is kept for each of the rest": {total: 10 * time.Second, others: 2, want: 8 * time.Second},
		"late, no more than that leaves":       {total: 10 * time.Second, passed: 8900 * time.Millisecond, others: 1, want: 100 * time.Millisecond},
		"later, an equal part":                 {total: 10 * time.Second, passed: 8500 * time.Millisecond, others: 2, want: 500 * time.Millisecond},
		"too late, never nothing":              {total: 10 * time.Second, passed: 11 * time.Second, others: 1, want: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBudget(began, tc.total)
			if got := b.share(began.Add(tc.passed), tc.others); got != tc.want {
				t.Errorf("share %s, want %s", got, tc.want)
			}
		})
	}
}

func TestCallersMayOnlyShortenTheBudget(t *testing.T) {
	wall := time.UnixMilli(1_700_000_000_000)
	cases := map[string]struct {
		header  http.Header
		route   time.Duration
		want    time.Duration
		wantErr bool
	}{
		"nothing asked":            {route: time.Minute, want: time.Minute},
		"shorter":                  {header: http.Header{headerTimeout: {"1500"}}, route: time.Minute, want: 1500 * time.Millisecond},
		"longer changes nothing":   {header: http.Header{headerTimeout: {"90000"}}, route: time.Minute, want: time.Minute},
		"where the route has none": {header: http.Header{headerDeadline: {" 20 "}}, want: 20 * time.Millisecond},
		"the shortest of several":  {header: http.Header{headerTimeout: {"300", "", "200", "250"}}, want: 200 * time.Millisecond},
		"the shorter of both":      {header: http.Header{headerTimeout: {"300"}, headerDeadline: {"200"}}, want: 200 * time.Millisecond},
		"a point in time":          {header: http.Header{headerDeadline: {"1700000000250"}}, want: 250 * time.Millisecond},
		"a point that is past":     {header: http.Header{headerDeadline: {"1600000000000"}}, want: 1},
		"more than time holds":     {header: http.Header{headerTimeout: {"9223372036854775807"}}, route: time.Minute, want: time.Minute},
		"more than a number holds": {header: http.Header{headerTimeout: {"99999999999999999999"}}, route: time.Minute, want: time.Minute},
		"less than a number holds": {header: http.Header{headerTimeout: {"-99999999999999999999"}}, wantErr: true},
		"no point in time":         {header: http.Header{headerTimeout: {"1600000000000"}}, route: time.Minute, want: time.Minute},
		"zero":                     {header: http.Header{headerTimeout: {"0"}}, wantErr: true},
		"words":                    {header: http.Header{headerDeadline: {"soon"}}, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := callersBudget(tc.header, wall, tc.route)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("budget %s, error %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestRequestIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"azAZ09-_.:/+=@": true, strings.Repeat("x", 128): true,
		"": false, strings.Repeat("x", 129): false, "a b": false, "a`": false, "a{": false, "a[": false, "a,": false, "a;": false, "a\x00": false, "é": false,
	} {
		if got := isValidID(id); got != want {
			t.Errorf("%q is valid: %v", id, got)
		}
	}
	if a, b := newID(), newID(); len(a) != 32 || a[:16] == b[:16] || a[16:] == b[16:] {
		t.Errorf("new ids %s and %s", a, b)
	}
}

func TestNamesThatNobodyCanHaveAreCut(t *testing.T) {
	longest := strings.Repeat("x", 253)
	for name, want := range map[string]string{"a\"b": `"a\"b"`, longest: `"` + longest + `"`, longest + "y": `"` + longest + `..."`} {
		if got := quoteName(name); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
