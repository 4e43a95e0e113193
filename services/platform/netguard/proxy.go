package netguard

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// maxProxyHead is the maximum size of a proxy's response to CONNECT, in bytes.
const maxProxyHead = 16 << 10

// proxy is the operator's egress proxy. It is asked to connect to the address that the guard has checked, never to a
// name, which it could resolve to another address.
type proxy struct {
	address       string
	secure        *tls.Config // nil for a plain connection to the proxy
	authorization string
}

// errProxyURL does not repeat the URL, which may contain a password.
var errProxyURL = errors.New("proxy: want http(s)://[user:password@]host[:port] without path, query and fragment")

func newProxy(u *url.URL) (*proxy, error) {
	if u == nil {
		return nil, nil //nolint:nilnil // No proxy is a valid setting.
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errProxyURL
	}
	port := u.Port()
	if port == "" {
		port = defaultPorts[u.Scheme]
	}
	p := &proxy{address: net.JoinHostPort(u.Hostname(), port)}
	if u.Scheme == "https" {
		p.secure = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		p.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// ErrProxy means that the proxy itself could not be reached or refused the request; nothing is known about the target.
var ErrProxy = errors.New("netguard: the egress proxy is not available")

// errTarget means that the proxy could not connect to the target.
var errTarget = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the egress proxy could not connect")}

// tunnel is a connection through the proxy to the target.
type tunnel struct {
	net.Conn

	remote net.Addr
}

// RemoteAddr returns the target's address.
func (t tunnel) RemoteAddr() net.Addr { return t.remote }

// dial connects to the first of a target's addresses that the proxy can reach. Each is checked as for a direct
// connection.
func (p *proxy) dial(ctx context.Context, g *Guard, t target) (net.Conn, error) {
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
		conn, err := p.connect(ctx, netip.AddrPortFrom(addr.Unmap(), t.port))
		if err == nil || errors.Is(err, ErrProxy) {
			return conn, err
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

// connect requests a connection to an address from the proxy (RFC 9110, section 9.3.6).
func (p *proxy) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTimeout}
	conn, err := d.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProxy, err)
	}
	deadline, ok := ctx.Deadline()
	if soon := time.Now().Add(connectTimeout); !ok || soon.Before(deadline) {
		deadline = soon
	}
	// A cancelled request ends the exchange with the proxy at once.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = conn.SetDeadline(deadline)
	open, err := p.openTunnel(ctx, conn, to.String())
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return tunnel{open, net.TCPAddrFromAddrPort(to)}, nil
}

func (p *proxy) openTunnel(ctx context.Context, conn net.Conn, to string) (net.Conn, error) {
	if p.secure != nil {
		secured := tls.Client(conn, p.secure)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProxy, err)
		}
		conn = secured
	}
	request := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n"
	if p.authorization != "" {
		request += "Proxy-Authorization: " + p.authorization + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProxy, err)
	}
	answer := bufio.NewReader(io.LimitReader(conn, maxProxyHead))
	response, err := http.ReadResponse(answer, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProxy, err)
	}
	_ = response.Body.Close() // There is no body after a successful CONNECT.
	switch {
	case response.StatusCode != http.StatusOK && response.StatusCode < 500:
		return nil, fmt.Errorf("%w: status %d", ErrProxy, response.StatusCode)
	case response.StatusCode != http.StatusOK:
		return nil, errTarget
	case answer.Buffered() > 0:
		return nil, fmt.Errorf("%w: it sent data after its response", ErrProxy)
	}
	return conn, nil
}
