package netguard

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"switchyard.dev/services/platform/tunnel"
)

// ErrProxy means that the proxy itself could not be reached or refused the request; nothing is known about the target.
var ErrProxy = tunnel.ErrProxy

// proxied is a connection through the proxy to the target.
type proxied struct {
	net.Conn

	remote net.Addr
}

// RemoteAddr returns the target's address.
func (p proxied) RemoteAddr() net.Addr { return p.remote }

// dialProxy connects to the first of a target's addresses that the proxy can reach. Each is checked as for a direct
// connection. The proxy is asked to connect to the address that was checked, never to a name, which it could resolve to
// another address.
func (g *Guard) dialProxy(ctx context.Context, t target) (net.Conn, error) {
	addrs, err := g.addressesOf(ctx, t)
	if err != nil {
		return nil, err
	}
	var failure error
	for _, addr := range addrs {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := g.checkDialled(t, target{addr: addr.Unmap(), port: t.port}); err != nil {
			failure = err
			continue
		}
		to := netip.AddrPortFrom(addr.Unmap(), t.port)
		conn, err := g.proxy.Dial(ctx, to.String())
		if err == nil {
			return proxied{conn, net.TCPAddrFromAddrPort(to)}, nil
		}
		if errors.Is(err, ErrProxy) {
			return nil, err
		}
		failure = err
	}
	return nil, failure
}

// addressesOf resolves a target's host as a direct dial would.
func (g *Guard) addressesOf(ctx context.Context, t target) ([]netip.Addr, error) {
	if t.addr.IsValid() {
		return []netip.Addr{t.addr}, nil
	}
	name := rooted(t.name)
	if g.allowed[t] {
		name = t.name
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return g.resolver.LookupNetIP(ctx, "ip", name)
}
