package netguard

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	loopback = netip.MustParseAddr("127.0.0.1")
	private  = netip.MustParseAddr("10.0.0.1")
	metadata = netip.MustParseAddr("169.254.169.254")
	public   = netip.MustParseAddr("1.1.1.1")
)

// canary returns a listener on 127.0.0.1 that no dial may reach, and its port.
func canary(t *testing.T) (*net.TCPListener, string) {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: loopback.AsSlice()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return l, port
}

// assertUntouched connects to the canary itself. Connections queue in order, so the first one accepted would be
// another's if the guard had let one through.
func assertUntouched(t *testing.T, l *net.TCPListener) {
	t.Helper()
	own, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Error("the canary was reached")
	}
}

func TestDialNeverReachesTheCanary(t *testing.T) {
	t.Parallel()
	l, port := canary(t)
	resolver, _ := newResolver(t, map[string][][]netip.Addr{
		"evil.example.com.":  {{loopback}},
		"mixed.example.com.": {{private, loopback, metadata}},
	})
	g := newGuard(t, Options{Resolver: resolver, AllowTargets: []string{"localhost:1", "127.0.0.1:1"}})
	for host, rule := range map[string]string{
		"127.0.0.1":          RuleAddress,
		"127.1":              RuleNumericHost,
		"2130706433":         RuleNumericHost,
		"0x7f.1":             RuleNumericHost,
		"0177.0.0.1":         RuleNumericHost,
		"①②⑦.0.0.1":          RuleAddress,
		"127。0。0。1":          RuleAddress,
		"0.0.0.0":            RuleAddress,
		"::":                 RuleAddress,
		"::1":                RuleAddress,
		"::ffff:127.0.0.1":   RuleAddress,
		"::1%lo":             RuleZone,
		"localhost":          RuleLocalName,
		"localhost.":         RuleHost,
		"evil.example.com":   RuleAddress,
		"EVIL.example.com":   RuleAddress,
		"evil。example。com":   RuleAddress,
		"evil.example.com.":  RuleHost,
		"mixed.example.com":  RuleAddress,
		"":                   RuleHost,
		"127.0.0.1\x00":      RuleHost,
		"a@127.0.0.1":        RuleNumericHost,
		"127.0.0.1/evil.com": RuleHost,
	} {
		conn, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		if err == nil {
			conn.Close()
		}
		if got := ruleOf(err); got != rule {
			t.Errorf("%q: %s, want %s", host, got, rule)
		}
		if err != nil && strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%q: the error tells the address: %v", host, err)
		}
	}
	for _, network := range []string{"udp", "unix", "ip:1"} {
		if _, err := g.DialContext(t.Context(), network, "1.1.1.1:443"); err == nil {
			t.Errorf("%s: connected", network)
		}
	}
	if _, err := g.DialContext(t.Context(), "tcp", "127.0.0.1"); ruleOf(err) != RuleHost {
		t.Errorf("no port: %v", err)
	}
	assertUntouched(t, l)
}

func TestRebindingIsRefusedAtTheDial(t *testing.T) {
	t.Parallel()
	l, port := canary(t)
	resolver, ns := newResolver(t, map[string][][]netip.Addr{
		"rebind.example.com.": {{public}, {loopback}},
	})
	g := newGuard(t, Options{Resolver: resolver})
	u, err := g.CheckURL("http://rebind.example.com:" + port + "/")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.CheckHost(t.Context(), u); err != nil {
		t.Fatalf("the public answer was refused: %v", err)
	}
	_, err = g.DialContext(t.Context(), "tcp", u.Host)
	if got := ruleOf(err); got != RuleAddress {
		t.Fatalf("the second answer: %s, want %s", got, RuleAddress)
	}
	if want := []string{"rebind.example.com.", "rebind.example.com."}; !slices.Equal(ns.asked, want) {
		t.Errorf("asked for %q, want %q", ns.asked, want)
	}
	assertUntouched(t, l)
}

func TestCheckHost(t *testing.T) {
	t.Parallel()
	resolver, ns := newResolver(t, map[string][][]netip.Addr{
		"public.example.com.":  {{public, netip.MustParseAddr("8.8.8.8")}},
		"mixed.example.com.":   {{public, private}},
		"inner.example.com.":   {{metadata}},
		"denied.example.com.":  {{netip.MustParseAddr("93.184.216.34")}},
		"allowed.example.com.": {{private}},
	})
	g := newGuard(t, Options{
		Resolver:     resolver,
		AllowTargets: []string{"allowed.example.com:443"},
		DenyPrefixes: []netip.Prefix{netip.MustParsePrefix("93.184.216.0/24")},
	})
	for raw, want := range map[string]string{
		"https://public.example.com/":       "ok",
		"https://mixed.example.com/":        RuleAddress,
		"https://inner.example.com/":        RuleAddress,
		"https://denied.example.com/":       RuleAddress,
		"https://allowed.example.com/":      "ok",
		"https://allowed.example.com:8443/": RuleAddress,
		"https://unknown.example.com/":      "ok",
		"https://1.1.1.1/":                  "ok",
		"https://127.0.0.1/":                RuleAddress,
		"https://localhost/":                RuleLocalName,
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		err = g.CheckHost(t.Context(), u)
		if got := ruleOf(err); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
	if !slices.Contains(ns.asked, "unknown.example.com.") {
		t.Error("the unknown name was not looked up")
	}
}

func TestRefusalKeepsTheAddressForTheLog(t *testing.T) {
	t.Parallel()
	g := newGuard(t, Options{})
	refusal, ok := g.checkAddr(metadata).(*Refusal) //nolint:errorlint // the bare value is the point
	if !ok || refusal.Addr != metadata || strings.Contains(refusal.Error(), metadata.String()) {
		t.Errorf("got %#v", refusal)
	}
}

func TestAllowTargets(t *testing.T) {
	t.Parallel()
	l, port := canary(t)
	_, closed := canary(t)
	resolver, _ := newResolver(t, map[string][][]netip.Addr{
		"dev.example.com.":      {{metadata, loopback}},
		"metadata.example.com.": {{metadata}},
		"any.example.com.":      {{private, loopback}},
	})
	byName := newGuard(t, Options{Resolver: resolver, AllowTargets: []string{"dev.example.com:" + port, "metadata.example.com:" + port}})
	byAddr := newGuard(t, Options{Resolver: resolver, AllowTargets: []string{"127.0.0.1:" + port}})
	for _, c := range []struct {
		name  string
		guard *Guard
		addr  string
		rule  string
	}{
		{"the name", byName, "dev.example.com:" + port, "ok"},
		{"the name in capitals", byName, "DEV.example.com:" + port, "ok"},
		{"the name, another port", byName, "dev.example.com:" + closed, RuleAddress},
		{"another name of the same address", byName, "any.example.com:" + port, RuleAddress},
		{"the address of the name", byName, "127.0.0.1:" + port, RuleAddress},
		{"a name of the metadata service", byName, "metadata.example.com:" + port, RuleAddress},
		{"the address", byAddr, "127.0.0.1:" + port, "ok"},
		{"the address, another port", byAddr, "127.0.0.1:" + closed, RuleAddress},
		{"a name of the address, behind a refused one", byAddr, "any.example.com:" + port, "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := c.guard.DialContext(t.Context(), "tcp", c.addr)
			if got := ruleOf(err); got != c.rule {
				t.Fatalf("%s, want %s", got, c.rule)
			}
			if err == nil {
				accepted, err := l.Accept()
				if err != nil || accepted.RemoteAddr().String() != conn.LocalAddr().String() {
					t.Errorf("connected elsewhere: %v", err)
				}
				conn.Close()
				accepted.Close()
			}
		})
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	g := tableGuard(t)
	judged := 0
	for _, c := range urlCases(t) {
		u, err := url.Parse(c.raw)
		if err != nil || c.rule != "ok" && c.rule != RuleAddress {
			continue
		}
		addr, err := netip.ParseAddr(u.Hostname())
		if err != nil || addr == netip.MustParseAddr("::ffff:8.8.8.8") { // refused only as a literal
			continue
		}
		judged++
		network, port := "tcp6", u.Port()
		if addr.Is4() {
			network = "tcp4"
		}
		if port == "" {
			port = "443"
		}
		err = g.Control(t.Context(), network, net.JoinHostPort(addr.String(), port), nil)
		if got := ruleOf(err); got != c.rule {
			t.Errorf("%s: %s, want %s", c.raw, got, c.rule)
		}
	}
	if judged < 60 {
		t.Errorf("only %d addresses judged", judged)
	}

	for _, c := range []struct{ network, address, rule string }{
		{"tcp4", "1.1.1.1:443", "ok"},
		{"tcp6", "[::ffff:1.1.1.1]:443", "ok"},
		{"tcp6", "[::ffff:127.0.0.1]:443", RuleAddress},
		{"tcp6", "[::ffff:127.0.0.1]:9091", "ok"},
		{"tcp4", "1.1.1.1:22", RulePort},
		{"tcp4", "1.1.1.1:0", RulePort},
		{"tcp", "1.1.1.1:443", RuleNetwork},
		{"udp4", "1.1.1.1:443", RuleNetwork},
		{"unix", "/run/docker.sock", RuleNetwork},
		{"tcp6", "[fe80::1%eth0]:443", RuleZone},
		{"tcp6", "[2606:4700:4700::1111%eth0]:443", RuleZone},
		{"tcp4", "1.1.1.1", RuleAddress},
		{"tcp4", "example.com:443", RuleAddress},
		{"tcp4", "127.1:443", RuleAddress},
		{"tcp4", "", RuleAddress},
	} {
		if got := ruleOf(g.Control(t.Context(), c.network, c.address, nil)); got != c.rule {
			t.Errorf("%s %s: %s, want %s", c.network, c.address, got, c.rule)
		}
	}
}

// TestDeniedNetworks tests the first and last address of each special-purpose network.
func TestDeniedNetworks(t *testing.T) {
	t.Parallel()
	g := newGuard(t, Options{})
	for s := range strings.FieldsSeq(`0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12
		192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24
		198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 168.63.129.16/32`) {
		prefix := netip.MustParsePrefix(s)
		first, last := prefix.Addr().As4(), prefix.Addr().As4()
		for i := range last {
			last[i] |= byte(0xff) >> min(8, max(0, prefix.Bits()-8*i))
		}
		for _, addr := range [][4]byte{first, last} {
			if g.checkAddr(netip.AddrFrom4(addr)) == nil {
				t.Errorf("%v is let through", netip.AddrFrom4(addr))
			}
		}
	}
	for n := range 8 { // Of the eighths of the IPv6 space only 2000::/3 is public.
		addr, err := netip.ParseAddr(strconv.FormatInt(int64(n)<<13|0x600, 16) + ":4700::1111")
		if err != nil {
			t.Fatal(err)
		}
		if denied := g.checkAddr(addr) != nil; denied != (n != 1) {
			t.Errorf("%v: denied %t", addr, denied)
		}
	}
}
