package netguard

import (
	"bufio"
	"errors"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
)

func newGuard(tb testing.TB, o Options) *Guard {
	tb.Helper()
	g, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func tableGuard(tb testing.TB) *Guard {
	tb.Helper()
	return newGuard(tb, Options{
		AllowTargets: []string{"LOCALHOST:9090", "fake-chat:9000", "allowed.example.com:6379", "127.0.0.1:9091", "[::1]:9092"},
		DenyPrefixes: []netip.Prefix{netip.MustParsePrefix("93.184.216.0/24"), netip.MustParsePrefix("2a00:dead::/32")},
	})
}

type urlCase struct{ rule, raw, canonical string }

// urlCases reads testdata/urls.txt. "+n" at the end of a URL stands for n times the letter a.
func urlCases(tb testing.TB) []urlCase {
	tb.Helper()
	f, err := os.Open("testdata/urls.txt")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()

	var cases []urlCase
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		rule, rest, found := strings.Cut(lines.Text(), " ")
		if !found || rule == "#" {
			continue
		}
		raw, rest := unquote(tb, rest)
		if head, n, repeat := strings.Cut(raw, "/+"); repeat {
			count, err := strconv.Atoi(n)
			if err != nil {
				tb.Fatalf("%q: %v", raw, err)
			}
			raw = head + "/" + strings.Repeat("a", count)
		}
		c := urlCase{rule: rule, raw: raw, canonical: raw}
		if rest != "" {
			c.canonical, _ = unquote(tb, strings.TrimSpace(rest))
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	return cases
}

func unquote(tb testing.TB, s string) (text, rest string) {
	tb.Helper()
	prefix, err := strconv.QuotedPrefix(s)
	if err != nil {
		tb.Fatalf("%s: %v", s, err)
	}
	text, err = strconv.Unquote(prefix)
	if err != nil {
		tb.Fatalf("%s: %v", s, err)
	}
	return text, s[len(prefix):]
}

func ruleOf(err error) string {
	if err == nil {
		return "ok"
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal.Rule
	}
	return "no refusal: " + err.Error()
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	g := tableGuard(t)
	cases := urlCases(t)
	if len(cases) < 220 {
		t.Fatalf("only %d forms in the table", len(cases))
	}
	for _, c := range cases {
		t.Run(c.raw, func(t *testing.T) {
			t.Parallel()
			u, err := g.CheckURL(c.raw)
			if got := ruleOf(err); got != c.rule {
				t.Fatalf("rule %s, want %s (%v)", got, c.rule, err)
			}
			if err == nil && u.String() != c.canonical {
				t.Errorf("canonical form %s, want %s", u, c.canonical)
			}
		})
	}
}

func TestCheckURLRequiresHTTPS(t *testing.T) {
	t.Parallel()
	g := newGuard(t, Options{RequireHTTPS: true, AllowTargets: []string{"localhost:9090"}})
	for raw, want := range map[string]string{
		"https://example.com/":     "ok",
		"http://example.com/":      RuleScheme,
		"https://localhost:9090/":  "ok",
		"http://localhost:9090/":   RuleScheme,
		"HTTP://example.com:8080/": RuleScheme,
	} {
		if _, err := g.CheckURL(raw); ruleOf(err) != want {
			t.Errorf("%s: %s, want %s", raw, ruleOf(err), want)
		}
	}
}

func TestCheckSecureURL(t *testing.T) {
	g := tableGuard(t)
	for raw, rule := range map[string]string{
		"https://example.com/mcp": "ok", "http://localhost:9090/mcp": "ok", "http://LOCALHOST:9090/mcp": "ok", "https://localhost:9090/": "ok",
		"http://example.com/mcp": RuleScheme, "http://example.com:9090/": RuleScheme, "https://localhost/": RuleLocalName, "https://10.0.0.1/": RuleAddress,
	} {
		_, err := g.CheckSecureURL(raw)
		if got := ruleOf(err); got != rule {
			t.Errorf("%s: %q, want %q", raw, got, rule)
		}
	}
}

func TestRefusalDoesNotRepeatTheURL(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-canary"
	g := newGuard(t, Options{})
	for _, raw := range []string{
		"https://user:" + secret + "@example.com/",
		"https://" + secret + ":port/",
		"https://example.com/%zz?token=" + secret,
		"https://example.com:6379/?token=" + secret,
		"https://" + secret + "/",
	} {
		_, err := g.CheckURL(raw)
		if err == nil {
			t.Errorf("%s: accepted", raw)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error repeats it: %v", raw, err)
		}
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"no port":           {AllowTargets: []string{"localhost"}},
		"wildcard":          {AllowTargets: []string{"*.example.com:443"}},
		"URL":               {AllowTargets: []string{"http://localhost:80"}},
		"port name":         {AllowTargets: []string{"localhost:http"}},
		"zone":              {AllowTargets: []string{"[fe80::1%eth0]:80"}},
		"short address":     {AllowTargets: []string{"127.1:80"}},
		"zero prefix":       {DenyPrefixes: []netip.Prefix{{}}},
		"IPv4 as IPv6":      {DenyPrefixes: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
		"one bad among two": {AllowTargets: []string{"localhost:80", ":80"}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzCheckURL tests the properties that CheckURL's callers rely on: an accepted URL is accepted again unchanged, names
// a host that was checked, and contains nothing that breaks a request line.
func FuzzCheckURL(f *testing.F) {
	g := tableGuard(f)
	for _, c := range urlCases(f) {
		f.Add(c.raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := g.CheckURL(raw)
		if err != nil {
			if _, ok := errors.AsType[*Refusal](err); !ok {
				t.Fatalf("%q: not a refusal: %v", raw, err)
			}
			return
		}
		canonical := u.String()
		again, err := g.CheckURL(canonical)
		if err != nil || again.String() != canonical {
			t.Fatalf("%q became %q, which became %v (%v)", raw, canonical, again, err)
		}
		if parsed, err := url.Parse(canonical); err != nil || parsed.Host != u.Host || parsed.RequestURI() != u.RequestURI() {
			t.Fatalf("%q reads as %v (%v)", canonical, parsed, err)
		}
		for _, r := range canonical {
			if r <= ' ' || r > '~' || strings.ContainsRune(`\#`, r) {
				t.Fatalf("%q has %q", canonical, r)
			}
		}
		if u.User != nil || len(canonical) > maxURL {
			t.Fatalf("%q has a user or %d bytes", canonical, len(canonical))
		}
		if u.Scheme != "http" && u.Scheme != "https" {
			t.Fatalf("%q has the scheme %q", canonical, u.Scheme)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && (addr.IsLoopback() || addr.IsPrivate()) {
			if parsed, err := targetOf(u); err != nil || !g.allowed[parsed] {
				t.Fatalf("%q names an inner address", raw)
			}
		}
	})
}
