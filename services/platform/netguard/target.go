package netguard

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// target is a host and port in normalized form, which makes targets comparable.
type target struct {
	name string     // lower-case ASCII; empty if the host is an address
	addr netip.Addr // the zero Addr if the host is a name
	port uint16
}

func (t target) host() string {
	if t.addr.IsValid() {
		return t.addr.String()
	}
	return t.name
}

func (t target) portString() string { return strconv.Itoa(int(t.port)) }

func splitTarget(hostport string) (target, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return target{}, refuse(RuleHost, "the target is not host:port")
	}
	return parseTarget(host, port)
}

func parseTarget(host, port string) (target, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return target{}, refuse(RulePort, "the port is not a number from 1 to 65535")
	}
	t := target{port: uint16(n)}
	if strings.Contains(host, ":") {
		t.addr, err = parseIPv6(host)
	} else {
		t.name, t.addr, err = parseHost(host)
	}
	return t, err
}

func parseIPv6(host string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return netip.Addr{}, refuse(RuleHost, "the host is not an IPv6 address")
	case addr.Zone() != "":
		return netip.Addr{}, refuse(RuleZone, "the address has a zone")
	case addr.Is4In6():
		return netip.Addr{}, refuse(RuleAddress, "the address is an IPv4 address written as IPv6")
	}
	return addr, nil
}

// hostname normalizes a host as browsers and net/http do (UTS 46, non-transitional), but leaves underscores and hyphens
// to invalidLabel, which follows DNS.
var hostname = idna.New(
	idna.MapForLookup(),
	idna.BidiRule(),
	idna.Transitional(false),
	idna.StrictDomainName(false),
	idna.CheckHyphens(false),
)

const maxName = 253 // octets (RFC 1035, section 2.3.4) without the root

// parseHost parses a DNS name or, after normalization, an IPv4 address: "127。0。0。1" is one.
func parseHost(host string) (name string, addr netip.Addr, err error) {
	name, err = hostname.ToASCII(host)
	if err != nil || !utf8.ValidString(host) {
		return "", addr, refuse(RuleHost, "the host is not a valid domain name")
	}
	if addr, err = netip.ParseAddr(name); err == nil && addr.Is4() {
		return "", addr, nil
	}
	labels := strings.Split(name, ".")
	if isNumber(labels[len(labels)-1]) {
		return "", netip.Addr{}, refuse(RuleNumericHost, "the host is a number but not an IPv4 address of four decimal parts")
	}
	if len(name) > maxName || slices.ContainsFunc(labels, invalidLabel) {
		return "", netip.Addr{}, refuse(RuleHost, "the host is not a valid domain name")
	}
	return name, netip.Addr{}, nil
}

// isNumber reports whether a last label makes the host an IPv4 address according to the WHATWG URL standard.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

func invalidLabel(label string) bool {
	return label == "" || len(label) > 63 ||
		label[0] == '-' || label[len(label)-1] == '-' ||
		strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != ""
}

// localSuffixes never lead to a public host: RFC 6761, RFC 6762 (and its appendix G), RFC 7686, RFC 8375 and ICANN's
// .internal.
var localSuffixes = []string{
	"corp", "home", "home.arpa", "internal", "intranet", "invalid", "lan",
	"local", "localdomain", "localhost", "onion", "private",
}

// isLocal reports whether a name has a local suffix or no dot: a name without a dot is only completed by a search list.
func isLocal(name string) bool {
	if !strings.Contains(name, ".") {
		return true
	}
	return slices.ContainsFunc(localSuffixes, func(suffix string) bool {
		return strings.HasSuffix("."+name, "."+suffix)
	})
}

// internalPorts are ports from 1024 up whose protocols answer or obey an HTTP request that was never meant for them.
var internalPorts = []uint16{
	1433, 1521, 2049, 2181, 2375, 2376, 2379, 2380, 3306, 3389, 4369, 5432, 5672, 5900, 5984, 5985, 5986,
	6379, 6380, 6443, 7001, 8200, 8300, 8500, 8600, 9042, 9092, 9100, 9200, 9300, 10250, 10255, 10256,
	11211, 15672, 26379, 27017, 27018, 27019, 50070,
}

func isPublicPort(port uint16) bool {
	return port == 80 || port == 443 || port >= 1024 && !slices.Contains(internalPorts, port)
}
