package netguard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

const (
	lookupTimeout  = 2 * time.Second
	connectTimeout = 5 * time.Second
)

// CheckHost resolves the host of a URL from [Guard.CheckURL] and refuses it when
// any of its addresses is forbidden. A lookup that fails or takes over 2 s is no
// refusal: the name may resolve later, and the dial is checked again.
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

// rooted keeps the resolver from trying the search list, where "gateway.prod"
// may well be a service of the cluster.
func rooted(name string) string { return name + "." }

// DialContext connects to a host and port, each address of the host being
// checked when it is dialled; a forbidden one is passed over for the next. The
// error is a *[Refusal] when a rule was the reason.
func (g *Guard) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	t, err := splitTarget(addr)
	if err != nil {
		return nil, err
	}
	if err := g.checkTarget(t); err != nil {
		return nil, err
	}
	if g.proxy != nil {
		return g.proxy.dial(ctx, g, t)
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
		return nil, refusal // bare: what net wraps round it tells the address
	}
	return conn, err
}

// Control decides on the address that a connection is about to be made to. It
// is a [net.Dialer.ControlContext] and refuses what it can't read.
func (g *Guard) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	dialled, err := parseDialled(network, address)
	if err != nil {
		return err
	}
	return g.checkTarget(dialled)
}

// controlAllowedName stands in for Control when the operator allowed the name
// that is dialled.
func (g *Guard) controlAllowedName(_ context.Context, network, address string, _ syscall.RawConn) error {
	dialled, err := parseDialled(network, address)
	if err != nil {
		return err
	}
	return g.checkAllowedName(dialled)
}

func (g *Guard) checkAllowedName(dialled target) error {
	if dialled.addr.IsLoopback() || dialled.addr.IsPrivate() {
		return nil
	}
	return g.checkAddr(dialled.addr)
}

// checkDialled decides on an address that a target's host resolved to.
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
