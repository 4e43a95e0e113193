// Package connpool makes HTTP/1.1 requests over pooled connections, each on the goroutine of its caller. Requests are
// written and responses are read by net/http ([http.Request.Write], [http.ReadResponse]). The gateway calls vendors
// through it, and the edge calls the services.
//
// It is stricter than [http.Transport], which puts a connection back into its pool before it has checked for bytes
// after the response. A server that sends more than it was asked for can then have the rest taken for the response to
// the next request. In this package a connection with a single unread byte, in the socket, in TLS or in a buffer, is
// not used again. That is checked when the connection is put back and again when it is taken.
package connpool

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Options of a pool. A zero value means the default named here.
type Options struct {
	// Dial connects to host:port; a [net.Dialer] by default.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS returns the configuration of a new https connection, without a server name and protocols. The default
	// requires TLS 1.2 and trusts the machine's CAs.
	TLS func() *tls.Config
	// ConnectTime bounds connecting including the TLS handshake, 10 s.
	ConnectTime time.Duration
	// IdlePerHost is how many idle connections of one host are kept, 64, and IdleTime for how long, 90 s. The number of
	// connections in use is not limited here; callers limit it.
	IdlePerHost int
	IdleTime    time.Duration
	// MaxAge is how old connections are kept, so that a balancer of connections can spread the load over new replicas.
	// Each has a tenth more or less of it, as those of one moment would otherwise end together. None by default.
	MaxAge time.Duration
}

// Pool is an [http.RoundTripper], safe for concurrent use. It supports HTTP/1.1 only, ignores proxy variables of the
// environment, requests no compression and calls no httptrace hooks. It sends each request once: the caller decides
// whether a failed request may be repeated. When the request's context ends, the connection is broken at once, also
// while the response's body is read.
type Pool struct {
	options Options

	mu   sync.Mutex
	idle map[address][]*conn // most recently used last
	// noReuse holds until when connections to an address serve one request each.
	noReuse map[address]time.Time
}

// noReuseTime is how long connections to a server that sent something after a response serve one request each. Bytes
// that arrive a moment later would be read by the next request on the connection, which can't distinguish them from its
// response.
const noReuseTime = 10 * time.Minute

// address identifies a server.
type address struct{ scheme, host, port string }

// New returns an empty Pool.
func New(o Options) *Pool {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.TLS == nil {
		o.TLS = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
	}
	o.ConnectTime = cmp.Or(o.ConnectTime, 10*time.Second)
	o.IdlePerHost = cmp.Or(o.IdlePerHost, 64)
	o.IdleTime = cmp.Or(o.IdleTime, 90*time.Second)
	return &Pool{options: o, idle: make(map[address][]*conn), noReuse: make(map[address]time.Time)}
}

// RoundTrip sends one request and returns the response once its headers are read. Closing the body before its end
// closes the connection. A response that arrives before the end of the request is returned at once; the request's body
// may then be read until the response's body is closed.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := p.connect(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return c.roundTrip(r)
}

// check returns an error for what [http.Request.Write] would change or fail on. It doesn't repeat a header's value,
// which may be a credential.
func check(r *http.Request) error {
	if r.Method != "" && !httpguts.ValidHeaderFieldName(r.Method) { // A method and a header name are both tokens.
		return fmt.Errorf("the method %q is not valid", r.Method)
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("the header name %q is not valid", name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("the value of header %s is not valid", name)
			}
		}
	}
	return nil
}

// connect returns a connection for r's exclusive use, an idle one if possible.
func (p *Pool) connect(r *http.Request) (*conn, error) {
	if r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	to, err := addressOf(r)
	if err = errors.Join(check(r), err); err != nil {
		return nil, err
	}
	for {
		c := p.take(to)
		switch {
		case c == nil:
			return p.dial(r.Context(), to)
		case c.clean():
			return c, nil
		}
		c.close()
	}
}

// ports are the default ports of URL schemes.
var ports = map[string]string{"http": "80", "https": "443"}

func addressOf(r *http.Request) (address, error) {
	standard := ports[r.URL.Scheme]
	if standard == "" || r.URL.Hostname() == "" {
		return address{}, fmt.Errorf("the URL has the scheme %q and the host %q: need http or https, and a host", r.URL.Scheme, r.URL.Hostname())
	}
	return address{r.URL.Scheme, r.URL.Hostname(), cmp.Or(r.URL.Port(), standard)}, nil
}

func (p *Pool) dial(ctx context.Context, to address) (*conn, error) {
	connecting, cancel := context.WithTimeout(ctx, p.options.ConnectTime)
	defer cancel()
	made, err := p.options.Dial(connecting, "tcp", net.JoinHostPort(to.host, to.port))
	if err != nil {
		return nil, failure(ctx, fmt.Errorf("connect: %w", err))
	}
	c := newConn(p, to, made)
	if to.scheme == "https" {
		config := p.options.TLS().Clone()
		config.ServerName = cmp.Or(config.ServerName, to.host)
		secured := tls.Client(c.socket, config)
		if err := secured.HandshakeContext(connecting); err != nil {
			c.close()
			return nil, failure(ctx, fmt.Errorf("connect: %w", err))
		}
		c.Conn = secured
	}
	return c, nil
}

// failure returns the cause of ctx if it has ended, else err.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// take removes and returns the most recently used idle connection to an address, or nil.
func (p *Pool) take(to address) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.idle[to]
	if len(kept) == 0 {
		return nil
	}
	c := kept[len(kept)-1]
	p.idle[to] = slices.Delete(kept, len(kept)-1, len(kept))
	c.expiry.Stop()
	return c
}

// disableReuse makes connections to an address serve one request each for noReuseTime, and closes the idle ones.
func (p *Pool) disableReuse(to address) {
	p.mu.Lock()
	p.noReuse[to] = time.Now().Add(noReuseTime)
	idle := slices.Clone(p.idle[to])
	p.mu.Unlock()
	for _, c := range idle {
		p.expire(c)
	}
}

// keep puts a connection back and reports whether the pool took it. It doesn't if IdlePerHost is reached, if the
// connection is older than MaxAge, or if reuse is disabled for the address.
func (p *Pool) keep(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until, ok := p.noReuse[c.to]; ok {
		if time.Now().Before(until) {
			return false
		}
		delete(p.noReuse, c.to)
	}
	kept := p.idle[c.to]
	if len(kept) >= p.options.IdlePerHost || !c.ends.IsZero() && time.Now().After(c.ends) {
		return false
	}
	p.idle[c.to] = append(kept, c)
	c.expiry.Reset(p.options.IdleTime)
	return true
}

// expire closes a connection if it is still idle.
func (p *Pool) expire(c *conn) {
	p.mu.Lock()
	kept := p.idle[c.to]
	i := slices.Index(kept, c)
	switch {
	case i >= 0 && len(kept) == 1:
		delete(p.idle, c.to)
	case i >= 0:
		p.idle[c.to] = slices.Delete(kept, i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 {
		c.close()
	}
}

// CloseIdleConnections closes the connections that are not in use.
func (p *Pool) CloseIdleConnections() {
	p.mu.Lock()
	idle := slices.Concat(slices.Collect(maps.Values(p.idle))...)
	p.mu.Unlock()
	for _, c := range idle {
		p.expire(c)
	}
}
