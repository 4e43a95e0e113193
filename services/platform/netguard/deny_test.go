package netguard

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// Networks that an operator denies are refused when a URL is checked and when an address is dialled: as an address, as
// a name, and behind NAT64, both for a prefix of the network's own and for a denied IPv4 address within any 96-bit
// prefix (RFC 6052, section 2.2).
func TestDenyPrefixes(t *testing.T) {
	t.Parallel()
	l, port := canary(t)
	denied := map[string]string{
		"IPv4":                       "203.0.114.7",
		"IPv6":                       "2a00:dead::1",
		"behind the local NAT64":     "2a00:64:ff9b::101:101",
		"IPv4 behind another NAT64":  "2a00:1:2:3::cb00:7207",
		"IPv4 behind the well-known": "64:ff9b::cb00:7207",
		"the first address":          "203.0.114.0",
		"the last address":           "203.0.114.255",
	}
	zone := map[string][][]netip.Addr{}
	for _, text := range denied {
		addr := netip.MustParseAddr(text)
		zone["h"+strings.NewReplacer(":", "-", ".", "-").Replace(text)+".example.com."] = [][]netip.Addr{{addr}}
	}
	resolver, _ := newResolver(t, zone)
	g := newGuard(t, Options{Resolver: resolver, DenyPrefixes: []netip.Prefix{
		netip.MustParsePrefix("203.0.114.0/24"), netip.MustParsePrefix("2a00:dead::/32"), netip.MustParsePrefix("2a00:64:ff9b::/96"),
	}})
	for name, text := range denied {
		address := netip.MustParseAddr(text)
		byName := "h" + strings.NewReplacer(":", "-", ".", "-").Replace(text) + ".example.com"
		_, err := g.CheckURL("https://" + strings.TrimSuffix(net.JoinHostPort(address.String(), "443"), ":443") + "/")
		if got := ruleOf(err); got != RuleAddress {
			t.Errorf("%s, in a URL: %s, want %s", name, got, RuleAddress)
		}
		if got := ruleOf(g.CheckHost(t.Context(), &url.URL{Scheme: "https", Host: byName})); got != RuleAddress {
			t.Errorf("%s, by a name: %s, want %s", name, got, RuleAddress)
		}
		for _, host := range []string{text, byName} {
			conn, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
			if got := ruleOf(err); got != RuleAddress {
				t.Errorf("%s, dialled as %s: %s, want %s", name, host, got, RuleAddress)
			}
			if conn != nil {
				_ = conn.Close()
			}
		}
		network := "tcp6"
		if address.Is4() {
			network = "tcp4"
		}
		if got := ruleOf(g.Control(t.Context(), network, net.JoinHostPort(text, "443"), nil)); got != RuleAddress {
			t.Errorf("%s, as the socket is made: %s, want %s", name, got, RuleAddress)
		}
	}
	for _, text := range []string{"203.0.115.1", "2a00:beef::1", "2a00:1:2:3::cb00:7301", "2a00:64:ff9b:1::1"} {
		if err := g.Control(t.Context(), map[bool]string{true: "tcp4", false: "tcp6"}[netip.MustParseAddr(text).Is4()], net.JoinHostPort(text, "443"), nil); err != nil {
			t.Errorf("%s beside the denied ones: %v", text, err)
		}
	}
	assertUntouched(t, l)
}
