// Package netguard checks every request to an address that comes from a customer or from a response, so that Switchyard
// can't be used to reach what only Switchyard can reach (server-side request forgery, CWE-918).
//
// A target is checked three times. [Guard.CheckURL] checks the URL when it is received, without a lookup.
// [Guard.CheckHost] also resolves its host then, for an early error. Neither protects against a name that resolves to
// another address a moment later, so [Guard.Control] checks the address that a connection is about to be made to.
// [Guard.Client] and [Guard.Transport] include that check.
package netguard

import (
	"fmt"
	"net"
	"net/netip"

	"code.dny.dev/ssrf"

	"switchyard.dev/services/platform/tunnel"
)

// Options are an operator's additions to the built-in rules.
type Options struct {
	// AllowTargets are exempt from the rules on names, ports and addresses, each exactly as host:port. An ip:port is
	// permitted whichever name resolves to it. A name also covers the loopback and private addresses that it resolves
	// to. Meant for development.
	AllowTargets []string
	// RequireHTTPS refuses plain http, also for AllowTargets.
	RequireHTTPS bool
	// DenyPrefixes are refused in addition to the special-purpose networks: for example the cluster's own public
	// addresses or its NAT64 prefix. An IPv4 network is also refused behind 96-bit NAT64 prefixes.
	DenyPrefixes []netip.Prefix
	// Proxy is the operator's egress proxy. Every connection is requested by CONNECT to the address that the guard has
	// checked. Nil means no proxy.
	Proxy *tunnel.Proxy
	// DialPrefixes are the networks into which connections are made without a proxy; none means all that the other rules
	// leave.
	DialPrefixes []netip.Prefix
	// Resolver looks names up; nil means Go's own resolver with the machine's settings.
	Resolver *net.Resolver
}

// Guard holds the rules. It is safe for concurrent use.
type Guard struct {
	allowed      map[target]bool
	requireHTTPS bool
	networks     *ssrf.Guardian
	inner        []netip.Prefix // IPv4 networks that no IPv6 address may embed
	resolver     *net.Resolver
	proxy        *tunnel.Proxy  // nil for none
	dialed       []netip.Prefix // none for all
}

// New returns a Guard. It fails if an AllowTarget is not host:port or a prefix is invalid.
func New(o Options) (*Guard, error) {
	g := &Guard{
		allowed:      make(map[target]bool, len(o.AllowTargets)),
		requireHTTPS: o.RequireHTTPS,
		resolver:     o.Resolver,
		proxy:        o.Proxy,
		dialed:       o.DialPrefixes,
	}
	if g.resolver == nil {
		// libc's resolver parses "127.1" and "0x7f.1" as addresses, Go's does not.
		g.resolver = &net.Resolver{PreferGo: true}
	}
	var err error
	for _, hostport := range o.AllowTargets {
		t, err := splitTarget(hostport)
		if err != nil {
			return nil, fmt.Errorf("allowed target %q: %w", hostport, err)
		}
		g.allowed[t] = true
	}
	if g.networks, g.inner, err = newGuardian(o.DenyPrefixes); err != nil {
		return nil, err
	}
	return g, nil
}

// The rules that a target can break. The names are part of the API: callers put them into error bodies.
const (
	RuleLength      = "length"       // longer than 2048 bytes
	RuleCharacter   = "character"    // a character that is not allowed in a URL
	RuleSyntax      = "syntax"       // not an absolute URL
	RuleScheme      = "scheme"       // neither https nor, if allowed, http
	RuleUserinfo    = "userinfo"     // user:password@ before the host
	RuleFragment    = "fragment"     // a #fragment
	RuleHost        = "host"         // neither a DNS name nor an address
	RuleNumericHost = "numeric_host" // an address in a form that parsers disagree on: 127.1, 0x7f.1
	RuleLocalName   = "local_name"   // a name with a meaning only inside a network
	RulePort        = "port"         // not a port, or one that serves internal protocols
	RuleZone        = "zone"         // an IPv6 zone: fe80::1%eth0
	RuleAddress     = "address"      // a private, loopback, link-local, metadata or otherwise non-public address
	RuleNetwork     = "network"      // not TCP
)

// Refusal is the rule that a target broke. Rule and Text may be shown to the customer; Addr, the refused address of a
// name, is for the operator's log only.
type Refusal struct { //nolint:errname // callers treat it as an outcome
	Rule string
	Text string
	Addr netip.Addr
}

// Error returns the rule and its text, never an address.
func (r *Refusal) Error() string { return "target refused (" + r.Rule + "): " + r.Text }

func refuse(rule, text string) *Refusal { return &Refusal{Rule: rule, Text: text} }
