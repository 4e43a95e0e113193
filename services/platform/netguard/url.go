package netguard

import (
	"net"
	"net/url"
	"strings"
)

const maxURL = 2048 // bytes

// CheckURL parses an absolute http or https URL. It refuses a URL that no honest customer would send or that directly
// names a forbidden target; it does no lookup. The host of the returned URL is in lower-case ASCII without a default
// port; path and query are unchanged. Errors are *[Refusal].
func (g *Guard) CheckURL(raw string) (*url.URL, error) {
	u, err := g.parseURL(raw)
	if err != nil {
		return nil, err
	}
	t, err := targetOf(u)
	if err != nil {
		return nil, err
	}
	if err := g.checkTarget(t); err != nil {
		return nil, err
	}
	u.Host = net.JoinHostPort(t.host(), t.portString())
	if t.portString() == defaultPorts[u.Scheme] {
		u.Host = strings.TrimSuffix(u.Host, ":"+t.portString())
	}
	if len(u.String()) > maxURL {
		return nil, refuse(RuleLength, "the URL is longer than 2048 bytes")
	}
	return u, nil
}

// CheckSecureURL is CheckURL for a URL that must be https, except at the targets that the operator allowed.
func (g *Guard) CheckSecureURL(raw string) (*url.URL, error) {
	u, err := g.CheckURL(raw)
	if err != nil || u.Scheme == "https" {
		return u, err
	}
	if t, err := targetOf(u); err != nil || !g.allowed[t] {
		return nil, refuse(RuleScheme, "the URL must be https")
	}
	return u, nil
}

// parseURL checks everything but the host and port.
func (g *Guard) parseURL(raw string) (*url.URL, error) {
	switch {
	case len(raw) > maxURL:
		return nil, refuse(RuleLength, "the URL is longer than 2048 bytes")
	case strings.ContainsFunc(raw, isForbidden):
		return nil, refuse(RuleCharacter, "the URL has a space, control character or backslash")
	case strings.Contains(raw, "#"):
		return nil, refuse(RuleFragment, "the URL has a fragment")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, refuse(RuleSyntax, "the URL can't be parsed") // The parser's error would quote it.
	case u.Scheme != "https" && (u.Scheme != "http" || g.requireHTTPS):
		return nil, refuse(RuleScheme, "the scheme of the URL is not allowed")
	case u.User != nil:
		return nil, refuse(RuleUserinfo, "the URL has a user name or password")
	case u.Host == "":
		return nil, refuse(RuleSyntax, "the URL has no host")
	case !isAsWritten(raw, u):
		return nil, refuse(RuleCharacter, "the path or query has a character that must be percent-encoded")
	}
	return u, nil
}

func isForbidden(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }

// isAsWritten reports whether the URL will be sent with exactly the path and query that were checked: otherwise a
// second parser could read them differently.
func isAsWritten(raw string, u *url.URL) bool {
	sent := u.EscapedPath()
	if u.RawQuery != "" || u.ForceQuery {
		sent += "?" + u.RawQuery
	}
	isASCII := !strings.ContainsFunc(u.RawQuery, func(r rune) bool { return r > 0x7e })
	return isASCII && strings.HasSuffix(raw, sent)
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

func targetOf(u *url.URL) (target, error) {
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = defaultPorts[u.Scheme]
	}
	if strings.HasPrefix(u.Host, "[") != strings.Contains(host, ":") {
		return target{}, refuse(RuleHost, "brackets are for IPv6 addresses")
	}
	return parseTarget(host, port)
}

// checkTarget applies the rules that need no lookup.
func (g *Guard) checkTarget(t target) error {
	switch {
	case g.allowed[t]:
		return nil
	case !isPublicPort(t.port):
		return refuse(RulePort, "the port is not allowed")
	case t.addr.IsValid():
		return g.checkAddr(t.addr)
	case isLocal(t.name):
		return refuse(RuleLocalName, "the host is a local name")
	default:
		return nil
	}
}
