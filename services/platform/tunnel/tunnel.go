// Package tunnel connects through an operator's HTTP proxy by the method CONNECT (RFC 9110, section 9.3.6). Package
// netguard reaches checked addresses through it, and the gateway its vendors.
package tunnel

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
	"net/url"
	"strings"
	"time"

	"switchyard.dev/services/platform/secret"
)

const (
	// maxHead is the maximum size of a proxy's response to CONNECT, in bytes.
	maxHead = 16 << 10
	// connectTimeout bounds connecting to the proxy, and the proxy's answer.
	connectTimeout = 5 * time.Second
)

// ErrProxy means that the proxy itself could not be reached or refused the request; nothing is known about the target.
var ErrProxy = errors.New("the egress proxy is not available")

// ErrTarget means that the proxy could not connect to the target.
var ErrTarget = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the egress proxy could not connect")}

// errURL does not repeat the URL, which may contain a password.
var errURL = errors.New("proxy: want http(s)://[user:password@]host[:port] without path, query and fragment")

// Proxy is an HTTP proxy. Safe for concurrent use.
type Proxy struct {
	address string
	secure  *tls.Config // nil for a plain connection to the proxy
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	// authorization is the value of Proxy-Authorization; empty for none.
	authorization string
}

// defaultPorts are the ports of proxies whose URL has none.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// New returns the proxy of a URL. dial connects to the proxy itself; nil means a net.Dialer's.
func New(u *url.URL, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*Proxy, error) {
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errURL
	}
	port := u.Port()
	if port == "" {
		port = defaultPorts[u.Scheme]
	}
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	p := &Proxy{address: net.JoinHostPort(u.Hostname(), port), dial: dial}
	if u.Scheme == "https" {
		p.secure = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		p.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// Open returns the proxy whose URL is in a file, or nil if no file is set; see New. The error does not repeat the URL.
func Open(file secret.File, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*Proxy, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // No proxy is a valid setting.
	}
	text, err := file.Read()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimSpace(text.Reveal()))
	if err != nil { // The parser's error would quote the URL.
		return nil, errURL
	}
	return New(u, dial)
}

// Dial requests a connection to host:port from the proxy, which resolves the host if it is a name. The error wraps
// ErrProxy or is ErrTarget, unless the context ended.
func (p *Proxy) Dial(ctx context.Context, to string) (net.Conn, error) {
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := p.dial(connecting, "tcp", p.address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProxy, err)
	}
	deadline, _ := connecting.Deadline()
	// A cancelled request ends the exchange with the proxy at once.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = conn.SetDeadline(deadline)
	open, err := p.open(connecting, conn, to)
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
	return open, nil
}

func (p *Proxy) open(ctx context.Context, conn net.Conn, to string) (net.Conn, error) {
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
	answer := bufio.NewReader(io.LimitReader(conn, maxHead))
	response, err := http.ReadResponse(answer, &http.Request{Method: http.MethodConnect})
	if err != nil { // The error quotes what came.
		return nil, fmt.Errorf("%w: it did not answer with an HTTP response", ErrProxy)
	}
	_ = response.Body.Close() // There is no body after a successful CONNECT.
	switch {
	case response.StatusCode != http.StatusOK && response.StatusCode < 500:
		return nil, fmt.Errorf("%w: status %d", ErrProxy, response.StatusCode)
	case response.StatusCode != http.StatusOK:
		return nil, ErrTarget
	case answer.Buffered() > 0:
		return nil, fmt.Errorf("%w: it sent data after its response", ErrProxy)
	}
	return conn, nil
}
