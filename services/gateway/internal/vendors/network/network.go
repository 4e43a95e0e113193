// Package network makes the gateway's outgoing connections: directly, or through a proxy, and only into networks that the
// operator allows. Vendors, token servers and secret managers are reached through it; images that requests name are
// fetched through a guard of their own. Proxies of the environment are ignored.
package network

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/tunnel"
)

// Options of a Network.
type Options struct {
	// ConnectTime bounds connecting, with TLS and through a proxy.
	ConnectTime time.Duration
	// Proxy is the file with the URL of the service's proxy, which may hold a user and a password; empty for none.
	Proxy secret.File
	// Allowed are the networks into which connections may be made; none means all. With a proxy they are those of the
	// proxy, since nothing else is dialed.
	Allowed []netip.Prefix
}

// Route is how a provider is reached, where it differs from the service's own way.
type Route struct {
	// Direct ignores the service's proxy.
	Direct bool
	// Proxy is the provider's own proxy, an http or https URL without user; empty for the service's way. ProxyCredentials
	// is the file with its user:password; empty for none.
	Proxy            string
	ProxyCredentials secret.File
	// CAFile holds the CA certificates (PEM) that are trusted instead of the machine's; empty for the machine's.
	CAFile string
}

// Network makes connections. Safe for concurrent use.
type Network struct {
	options Options
	proxy   *tunnel.Proxy // nil for none

	mu sync.Mutex
	// transports are the pools by what distinguishes them, so that a reload of the policy keeps connections.
	transports map[route]*connpool.Pool
}

// route is a Route with the contents of its files.
type route struct {
	direct     bool
	proxy, cas string
}

// New returns a Network, or the error of a proxy's URL.
func New(o Options) (*Network, error) {
	n := &Network{options: o, transports: make(map[route]*connpool.Pool)}
	var err error
	n.proxy, err = tunnel.Open(o.Proxy, n.direct)
	return n, err
}

// Proxy returns the service's proxy; nil for none.
func (n *Network) Proxy() *tunnel.Proxy { return n.proxy }

// keepAlive detects a peer that is gone half a minute after its last byte.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// direct connects without a proxy. TCP_NODELAY is Go's default.
func (n *Network) direct(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive}
	if len(n.options.Allowed) > 0 {
		dialer.ControlContext = n.control
	}
	return dialer.DialContext(ctx, network, address)
}

// ErrNotAllowed is the error of a connection into a network that is not allowed.
var ErrNotAllowed = errors.New("the address is in none of the networks that may be dialed")

// control refuses addresses outside of the allowed networks, whatever name they have.
func (n *Network) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("parse the address to dial: %w", err)
	}
	for _, prefix := range n.options.Allowed {
		if prefix.Contains(at.Addr().Unmap()) {
			return nil
		}
	}
	return ErrNotAllowed
}

// Dial connects to host:port the service's way. What is on the machine itself is never behind a proxy.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n.proxy != nil && !local(address) {
		return n.proxy.Dial(ctx, address)
	}
	return n.direct(ctx, network, address)
}

// local reports whether an address is of the machine itself: loopback, or a cloud's metadata server.
func local(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host == "localhost" || host == "metadata.google.internal"
	}
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsLinkLocalUnicast() || awsMetadata.Contains(ip)
}

// awsMetadata are AWS's own addresses within an instance, beside the link-local ones.
var awsMetadata = netip.MustParsePrefix("fd00:ec2::/32")

// idlePerHost is the number of idle connections that are kept: as many as one vendor may have calls in flight.
const idlePerHost = 1024

// NewTransport returns a transport that connects directly, to any address.
func NewTransport(connectTime time.Duration) *connpool.Pool {
	n := &Network{options: Options{ConnectTime: connectTime}}
	return n.pool(n.direct, nil)
}

// pool returns a pool that trusts these CAs; nil are the machine's. A call has a connection of its own: a connection that
// hangs or breaks affects no other call, and a vendor that is gone is detected while it is silent. Reading an answer has
// no time limit here: package inference bounds the time of a call.
func (n *Network) pool(dial func(ctx context.Context, network, address string) (net.Conn, error), roots *x509.CertPool) *connpool.Pool {
	o := connpool.Options{Dial: dial, ConnectTime: n.options.ConnectTime, IdlePerHost: idlePerHost}
	if roots != nil {
		o.TLS = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots} }
	}
	return connpool.New(o)
}

// Transport returns the transport of a provider. The error names the setting of the route that is wrong.
func (n *Network) Transport(r Route) (http.RoundTripper, error) {
	key, roots, proxy, err := n.read(r)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if pool := n.transports[key]; pool != nil {
		return pool, nil
	}
	dial := n.Dial
	switch {
	case r.Direct:
		dial = n.direct
	case proxy != nil:
		dial = func(ctx context.Context, _, address string) (net.Conn, error) { return proxy.Dial(ctx, address) }
	}
	pool := n.pool(dial, roots)
	n.transports[key] = pool
	return pool, nil
}

// read reads the files of a route.
func (n *Network) read(r Route) (key route, roots *x509.CertPool, proxy *tunnel.Proxy, err error) {
	key.direct = r.Direct
	if r.Proxy != "" {
		u, err := proxyURL(r)
		if err != nil {
			return key, nil, nil, fmt.Errorf("proxy: %w", err)
		}
		key.proxy = u.String()
		if proxy, err = tunnel.New(u, n.direct); err != nil {
			return key, nil, nil, err
		}
	}
	if r.CAFile != "" {
		text, err := bounded.ReadFile(r.CAFile, bounded.MaxFile)
		if err != nil {
			return key, nil, nil, fmt.Errorf("ca_file: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return key, nil, nil, fmt.Errorf("ca_file: %s holds no certificate in PEM", r.CAFile)
		}
		key.cas = string(text)
	}
	return key, roots, proxy, nil
}

// proxyURL returns the URL of a route's proxy with its credentials.
func proxyURL(r Route) (*url.URL, error) {
	u, err := url.Parse(r.Proxy)
	if err != nil || u.User != nil { // The parser's error would quote the URL.
		return nil, errors.New("want an http or https URL without a user, whose credentials belong in a file")
	}
	if r.ProxyCredentials == "" {
		return u, nil
	}
	text, err := r.ProxyCredentials.Read()
	if err != nil {
		return nil, fmt.Errorf("credentials_file: can't be read: %w", err)
	}
	user, password, ok := strings.Cut(text.Reveal(), ":")
	if !ok || user == "" {
		return nil, fmt.Errorf("credentials_file: %s: want user:password", r.ProxyCredentials)
	}
	u.User = url.UserPassword(user, password)
	return u, nil
}
