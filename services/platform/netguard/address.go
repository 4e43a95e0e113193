package netguard

import (
	"fmt"
	"net/netip"
	"slices"

	"code.dny.dev/ssrf"
)

// wireServer is Azure's host service, a public address that every Azure machine reaches without leaving its host.
var wireServer = netip.MustParsePrefix("168.63.129.16/32")

// newGuardian returns rules that refuse the special-purpose networks of IANA's registries (for IPv6 all but 2000::/3),
// Azure's host service and the operator's prefixes. inner are the IPv4 networks that must not be reached through an
// address translator either.
func newGuardian(deny []netip.Prefix) (networks *ssrf.Guardian, inner []netip.Prefix, err error) {
	v4, v6 := []netip.Prefix{wireServer}, []netip.Prefix(nil)
	for _, prefix := range deny {
		switch addr := prefix.Addr(); {
		case !prefix.IsValid(), addr.Is4In6():
			return nil, nil, fmt.Errorf("denied prefix %v: not an IPv4 or IPv6 prefix", prefix)
		case addr.Is4():
			v4 = append(v4, prefix)
		default:
			v6 = append(v6, prefix)
		}
	}
	inner = slices.Concat(innerNetworks, v4)
	return ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(v4...), ssrf.WithDeniedV6Prefixes(v6...)), inner, nil
}

// checkAddr refuses every address that isn't public unicast.
func (g *Guard) checkAddr(addr netip.Addr) error {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" || embeds(addr, g.inner) || g.networks.SafeAddr(addr) != nil {
		return &Refusal{Rule: RuleAddress, Text: "the host has an address that is not public", Addr: addr}
	}
	return nil
}

// innerNetworks are the IPv4 networks that a translator could be made to reach, besides Azure's host service and those
// that the operator denies. 0.0.0.0/8 is not included: the low half of an ordinary address such as 2001:db8::1 looks
// like it.
var innerNetworks = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
}

// embeds reports whether the last 32 bits of an IPv6 address that looks public are an IPv4 address: any address in
// ISATAP form (RFC 5214, section 6.1), or one of the inner networks behind a network's own 96-bit NAT64 prefix (RFC
// 6052, section 2.2).
func embeds(addr netip.Addr, inner []netip.Prefix) bool {
	if !addr.Is6() {
		return false
	}
	b := addr.As16()
	switch [4]byte(b[8:12]) {
	case [4]byte{0x00, 0x00, 0x5e, 0xfe}, [4]byte{0x02, 0x00, 0x5e, 0xfe}:
		return true
	case [4]byte{}:
		v4 := netip.AddrFrom4([4]byte(b[12:]))
		return slices.ContainsFunc(inner, func(p netip.Prefix) bool { return p.Contains(v4) })
	default:
		return false
	}
}
