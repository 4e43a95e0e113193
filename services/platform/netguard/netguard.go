// Package netguard guards every request to an address that a customer or a
// response named, so that Switchyard can't be used to reach what only
// Switchyard can reach (server-side request forgery, CWE-918).
//
// A target is checked three times. [Guard.CheckURL] reads the URL where it
// enters, without a lookup. [Guard.CheckHost] also resolves it there, for an
// early answer. Neither holds against a name that resolves to something else a
// moment later, so [Guard.Control] decides on the address that a connection is
// about to be made to. [Guard.Client] and [Guard.Transport] have it built in.
package netguard

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"code.dny.dev/ssrf"
)

// Options are an operator's additions to the built-in rules.
type Options struct {
	// AllowTargets are exempt from the rules on names, ports and addresses, each
	// exactly as host:port. An ip:port is let through whichever name resolves to it; a
	// name also covers the loopback and private addresses that it resolves to.
	// Meant for development.
	AllowTargets []string
	// RequireHTTPS refuses plain http, also for AllowTargets.
	RequireHTTPS bool
	// DenyPrefixes are refused beside the special-purpose networks: the cluster's
	// own public addresses, its NAT64 prefix. An IPv4 network is also refused behind
	// NAT64 prefixes of 96 bits.
	DenyPrefixes []netip.Prefix
	// Proxy is the operator's way out, an http or https URL: every connection is
	// asked for by CONNECT to the address that the guard has decided on. Nil for none.
	Proxy *url.URL
	// Resolver looks names up; nil means Go's own with the machine's settings.
	Resolver *net.Resolver
}

// Guard holds the rules. It is safe for concurrent use.
type Guard struct {
	allowed      map[target]bool
	requireHTTPS bool
	networks     *ssrf.Guardian
	inner        []netip.Prefix // IPv4 networks that no IPv6 address may embed
	resolver     *net.Resolver
	proxy        *proxy // nil for none
}

// New fails on an AllowTarget that is not host:port and on an invalid prefix.
func New(o Options) (*Guard, error) {
	g := &Guard{
		allowed:      make(map[target]bool, len(o.AllowTargets)),
		requireHTTPS: o.RequireHTTPS,
		resolver:     o.Resolver,
	}
	if g.resolver == nil {
		// libc's resolver reads "127.1" and "0x7f.1" as addresses, Go's does not.
		g.resolver = &net.Resolver{PreferGo: true}
	}
	var err error
	if g.proxy, err = newProxy(o.Proxy); err != nil {
		return nil, err
	}
	for _, hostport := range o.AllowTargets {
		t, err := splitTarget(hostport)
		if err != nil {
			return nil, fmt.Errorf("allowed target %q: %w", hostport, err)
		}
		g.allowed[t] = true
	}
	if g.networks, g.inner, err = guardian(o.DenyPrefixes); err != nil {
		return nil, err
	}
	return g, nil
}

// The rules a target can break. The names are part of the interface: callers
// put them into error bodies.
const (
	RuleLength      = "length"       // longer than 2048 bytes
	RuleCharacter   = "character"    // a character that has no place in a URL
	RuleSyntax      = "syntax"       // not an absolute URL
	RuleScheme      = "scheme"       // neither https nor, where allowed, http
	RuleUserinfo    = "userinfo"     // user:password@ before the host
	RuleFragment    = "fragment"     // a #fragment
	RuleHost        = "host"         // neither a DNS name nor an address
	RuleNumericHost = "numeric_host" // an address in a form that readers disagree on: 127.1, 0x7f.1
	RuleLocalName   = "local_name"   // a name that only means something inside a network
	RulePort        = "port"         // not a port, or one that serves internal protocols
	RuleZone        = "zone"         // an IPv6 zone: fe80::1%eth0
	RuleAddress     = "address"      // a private, loopback, link-local, metadata or otherwise non-public address
	RuleNetwork     = "network"      // not TCP
)

// Refusal says which rule a target broke. Rule and Text may be shown to the
// customer; Addr, the refused address of a name, is for the operator's log only.
type Refusal struct { //nolint:errname // callers read it as the outcome it is
	Rule string
	Text string
	Addr netip.Addr
}

// Error names the rule and never an address.
func (r *Refusal) Error() string { return "target refused (" + r.Rule + "): " + r.Text }

func refuse(rule, text string) *Refusal { return &Refusal{Rule: rule, Text: text} }
