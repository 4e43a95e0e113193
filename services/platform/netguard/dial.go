package netguard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

const (
	lookupTimeout  = 2 * time.Second
	connectTimeout = 5 * time.Second
)

// CheckHost resolves the host of a URL returned by [Guard.CheckURL] and refuses it if any of its addresses is
// forbidden. A lookup that fails or takes longer than 2 s is not refused: the name may resolve later, and the dial is
// checked again.
func (g *Guard) CheckHost(ctx context.Context, u *url.URL) error {
	t, err := targetOf(u)
	if err != nil {
		return err
	}
	if err := g.checkTarget(t); err != nil || t.name == "" || g.allowed[t] {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addrs, _ := g.resolver.LookupNetIP(ctx, "ip", rooted(t.name))
	for _, addr := range addrs {
		if err := g.checkAddr(addr); err != nil {
			return err
		}
	}
	return nil
}

// rooted makes a name absolute, so that the resolver doesn't apply the search list: with it, "gateway.prod" may be a
// service of the cluster.
func rooted(name string) string { return name + "." }

// DialContext connects to a host and port. Each address of the host is checked when it is dialled; a forbidden one is
// skipped. If a rule was the reason for failing, the error is a *[Refusal].
func (g *Guard) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	t, err := splitTarget(addr)
	if err != nil {
		return nil, err
	}
	if err := g.checkTarget(t); err != nil {
		return nil, err
	}
	if g.proxy != nil {
		return g.dialProxy(ctx, t)
	}
	host, control := t.host(), g.Control
	switch {
	case t.name != "" && g.allowed[t]:
		control = g.controlAllowedName
	case t.name != "":
		host = rooted(t.name)
	}
	d := net.Dialer{Timeout: connectTimeout, Resolver: g.resolver, ControlContext: control}
	conn, err := d.DialContext(ctx, network, net.JoinHostPort(host, t.portString()))
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return nil, refusal // unwrapped, because the error of package net contains the address
	}
	return conn, err
}

// Control checks the address that a connection is about to be made to. It is a [net.Dialer.ControlContext] and refuses
// an address that it can't parse.
func (g *Guard) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	dialled, err := parseDialled(network, address)
	if err != nil {
		return err
	}
	if err := g.checkTarget(dialled); err != nil {
		return err
	}
	return g.checkNetwork(dialled)
}

// checkNetwork refuses an address outside of the networks into which connections are made.
func (g *Guard) checkNetwork(dialled target) error {
	if len(g.dialed) == 0 || slices.ContainsFunc(g.dialed, func(p netip.Prefix) bool { return p.Contains(dialled.addr) }) {
		return nil
	}
	return refuse(RuleAddress, "the address is in none of the networks that may be dialed")
}

// controlAllowedName replaces Control if the operator allowed the dialled name.
func (g *Guard) controlAllowedName(_ context.Context, network, address string, _ syscall.RawConn) error {
	dialled, err := parseDialled(network, address)
	if err != nil {
		return err
	}
	if err := g.checkAllowedName(dialled); err != nil {
		return err
	}
	return g.checkNetwork(dialled)
}

func (g *Guard) checkAllowedName(dialled target) error {
	if dialled.addr.IsLoopback() || dialled.addr.IsPrivate() {
		return nil
	}
	return g.checkAddr(dialled.addr)
}

// checkDialled checks an address that a target's host resolved to.
func (g *Guard) checkDialled(t, dialled target) error {
	if t.name != "" && g.allowed[t] {
		return g.checkAllowedName(dialled)
	}
	return g.checkTarget(dialled)
}

func parseDialled(network, address string) (target, error) {
	if network != "tcp4" && network != "tcp6" {
		return target{}, refuse(RuleNetwork, "only TCP is allowed")
	}
	ap, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		return target{}, refuse(RuleAddress, "the dialled address can't be read")
	case ap.Addr().Zone() != "":
		return target{}, refuse(RuleZone, "the address has a zone")
	}
	return target{addr: ap.Addr().Unmap(), port: ap.Port()}, nil
}
