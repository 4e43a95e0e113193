// Package connpool makes HTTP/1.1 requests over kept connections, each on the
// goroutine of its caller; what goes over the wire is written and read by net/http
// ([http.Request.Write], [http.ReadResponse]). The gateway calls vendors through
// it, and the edge the services.
//
// It is stricter than [http.Transport], which gives a connection back before it has
// looked for bytes behind the answer, so that a server that sends more than it was
// asked for can have it taken for the next caller's answer. Here a connection with
// a single byte unread, in the socket, in TLS or in a buffer, serves no further
// request: that is checked when it is given back and again when it is taken.
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

// Options of a pool. Zero values mean the defaults named here.
type Options struct {
	// Dial connects to host:port, as a net.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS returns the configuration of a new connection for https, without a server
	// name and protocols: TLS 1.2 or newer, and the authorities of the machine.
	TLS func() *tls.Config
	// ConnectTime bounds connecting with the handshake, 10 s.
	ConnectTime time.Duration
	// IdlePerHost connections of one host are kept, 64, each for IdleTime, 90 s.
	// Connections in use have no limit: callers have theirs.
	IdlePerHost int
	IdleTime    time.Duration
}

// Pool is an [http.RoundTripper]. It speaks HTTP/1.1 only, follows no proxy of
// the environment, asks for no compression, calls no hooks of httptrace, and
// sends a request once: whether one that failed may be repeated is for its caller
// to say. A context that ends breaks its connection at once, while the body is
// read too. Safe for concurrent use.
type Pool struct {
	options Options

	mu   sync.Mutex
	idle map[address][]*conn // the last used one last
	// alone is until when connections to an address serve one request each.
	alone map[address]time.Time
}

// aloneTime is how long a connection to a server that sent something behind an
// answer serves one request: what it sends a moment later would be met by the next
// request on the connection, which can't tell it from its answer.
const aloneTime = 10 * time.Minute

// address is where a connection leads to.
type address struct{ scheme, host, port string }

// New returns an empty pool.
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
	return &Pool{options: o, idle: make(map[address][]*conn), alone: make(map[address]time.Time)}
}

// RoundTrip sends one request and returns its answer's head. A body that is
// closed before its end takes the connection with it. An answer that comes before
// the end of the request is returned at once; the request's body may then be read
// until the answer's is closed.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := p.connect(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return c.exchange(r)
}

// check finds what [http.Request.Write] would send on changed, or break on. A
// header's value isn't repeated: it may be a credential.
func check(r *http.Request) error {
	if r.Method != "" && !httpguts.ValidHeaderFieldName(r.Method) { // Both are tokens.
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

// connect returns a connection for r alone.
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

// ports are those of URLs that name none.
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

// failure is why a context ended, or else err.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// take removes and returns the idle connection that was used last, or nil.
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

// separate has connections to an address serve one request each for a while.
func (p *Pool) separate(to address) {
	p.mu.Lock()
	p.alone[to] = time.Now().Add(aloneTime)
	idle := slices.Clone(p.idle[to])
	p.mu.Unlock()
	for _, c := range idle {
		p.expire(c)
	}
}

// keep takes a connection back; false where there are enough, or where each serves
// one request.
func (p *Pool) keep(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until, ok := p.alone[c.to]; ok {
		if time.Now().Before(until) {
			return false
		}
		delete(p.alone, c.to)
	}
	kept := p.idle[c.to]
	if len(kept) >= p.options.IdlePerHost {
		return false
	}
	p.idle[c.to] = append(kept, c)
	c.expiry.Reset(p.options.IdleTime)
	return true
}

// expire closes a connection that is still idle.
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
