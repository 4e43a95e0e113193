package decision

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxProxies is how many trusted proxies a request may come through; a longer way ends at the last of them.
const maxProxies = 8

// Proxies are the networks of the HTTP proxies whose X-Forwarded-For is believed.
type Proxies []netip.Prefix

// Address returns the name of who makes a request, for its rate: one address of IPv4, one network of 64 bits of IPv6. It
// is the address of the connection, or where that is of a trusted proxy, the last one of X-Forwarded-For that is not: what
// stands before it is the caller's to make up.
func (p Proxies) Address(r *http.Request) string {
	at, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return r.RemoteAddr
	}
	if p.trust(at) {
		at = p.behind(at, r.Header.Values("X-Forwarded-For"))
	}
	if at.Is4() {
		return at.String()
	}
	prefix, _ := at.Prefix(64) // It has as many bits.
	return prefix.String()
}

func (p Proxies) trust(at netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(at) })
}

// behind follows the addresses that proxies noted, from the last one on, to the first that isn't a trusted proxy's. Where
// they end or one is no address, that is the last proxy itself.
func (p Proxies) behind(proxy netip.Addr, noted []string) netip.Addr {
	rest := strings.Join(noted, ",")
	for range maxProxies {
		comma := strings.LastIndexByte(rest, ',')
		at, ok := parseAddress(strings.TrimSpace(rest[comma+1:]))
		if !ok {
			return proxy
		}
		if proxy = at; !p.trust(at) || comma < 0 {
			return proxy
		}
		rest = rest[:comma]
	}
	return proxy
}

// parseAddress reads an address with or without a port. Addresses of IPv4 in IPv6 are those of IPv4.
func parseAddress(text string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	at, err := netip.ParseAddr(text)
	return at.Unmap().WithZone(""), err == nil
}
