// Package connpool makes HTTP/1.1 requests over kept connections, each wholly on
// the goroutine of its caller. [http.Transport] hands a request to one goroutine
// of its connection and takes the answer from another: wake-ups that cost a
// service whose every request is a request to somebody else a fifth of its
// client's processor time, and on an idle machine more of its latency. What goes
// over the wire is still written and read by net/http ([http.Request.Write],
// [http.ReadResponse]). The gateway calls vendors through it, and the edge the
// services.
package connpool

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Options of a pool. Zero values mean the defaults named here.
type Options struct {
	// Dial connects to host:port for http, DialTLS for https; they have their own
	// limits of time. As a net.Dialer and a tls.Dialer do.
	Dial, DialTLS func(ctx context.Context, network, address string) (net.Conn, error)
	// IdlePerHost connections of one host are kept, 64. One that was idle for
	// IdleTime, 90 s, is not used again, and closed within as long once more.
	// Connections in use have no limit: callers have theirs.
	IdlePerHost int
	IdleTime    time.Duration
	// ReadBuffer of a connection in bytes, 4 KiB; MaxHead is the largest head of an
	// answer, 256 KiB.
	ReadBuffer int
	MaxHead    int64
}

// Pool is an [http.RoundTripper]. It speaks HTTP/1.1 only, follows no proxy of
// the environment, asks for no compression, calls no hooks of httptrace, and
// sends a request once: whether one that failed may be repeated is for its caller
// to say. A context that ends breaks its connection at once, while the body is
// read too. Safe for concurrent use.
type Pool struct {
	options Options

	mu     sync.Mutex
	idle   map[address][]*conn // the last used one last
	reaper *time.Timer         // runs while a connection is idle
}

// address is where a connection leads to.
type address struct{ scheme, host string }

// New returns an empty pool.
func New(o Options) *Pool {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.DialTLS == nil {
		o.DialTLS = new(tls.Dialer).DialContext
	}
	o.IdlePerHost = cmp.Or(o.IdlePerHost, 64)
	o.IdleTime = cmp.Or(o.IdleTime, 90*time.Second)
	o.ReadBuffer = cmp.Or(o.ReadBuffer, 4<<10)
	o.MaxHead = cmp.Or(o.MaxHead, 256<<10)
	return &Pool{options: o, idle: make(map[address][]*conn)}
}

// RoundTrip sends one request and returns its answer's head. A body that is
// closed before its end takes the connection with it.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	err := check(r)
	var c *conn
	if err == nil {
		c, err = p.connect(r)
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return c.exchange(r)
}

// check finds what [http.Request.Write] would send on changed, or break on. A
// header's value stays untold: it may be a credential.
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

// connect gives a connection that nobody else uses.
func (p *Pool) connect(r *http.Request) (*conn, error) {
	if r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	to, err := addressOf(r)
	if err != nil {
		return nil, err
	}
	for {
		c := p.take(to)
		switch {
		case c == nil:
			return p.dial(r.Context(), to)
		case c.usable(time.Now()):
			return c, nil
		}
		c.close()
	}
}

func addressOf(r *http.Request) (address, error) {
	host, port := r.URL.Hostname(), r.URL.Port()
	switch scheme := r.URL.Scheme; {
	case scheme != "http" && scheme != "https":
		return address{}, fmt.Errorf("the scheme of the URL is %q, neither http nor https", scheme)
	case host == "":
		return address{}, errors.New("the URL has no host")
	case port != "":
		return address{scheme, r.URL.Host}, nil
	case scheme == "https":
		return address{scheme, net.JoinHostPort(host, "443")}, nil
	default:
		return address{scheme, net.JoinHostPort(host, "80")}, nil
	}
}

func (p *Pool) dial(ctx context.Context, to address) (*conn, error) {
	dial := p.options.Dial
	if to.scheme == "https" {
		dial = p.options.DialTLS
	}
	c, err := dial(ctx, "tcp", to.host)
	if err != nil {
		return nil, failure(ctx, fmt.Errorf("connect: %w", err))
	}
	return newConn(p, to, c), nil
}

// failure is why a context ended, or else err.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// take gives the idle connection that was used last, or nil.
func (p *Pool) take(to address) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.idle[to]
	if len(kept) == 0 {
		return nil
	}
	last := len(kept) - 1
	c := kept[last]
	kept[last], p.idle[to] = nil, kept[:last]
	return c
}

// keep takes a connection back; false where there are enough.
func (p *Pool) keep(c *conn) bool {
	c.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.idle[c.to]
	if len(kept) >= p.options.IdlePerHost {
		return false
	}
	p.idle[c.to] = append(kept, c)
	if p.reaper == nil {
		p.reaper = time.AfterFunc(p.options.IdleTime, p.reap)
	}
	return true
}

// reap closes what has been idle for too long.
func (p *Pool) reap() { p.drop(time.Now().Add(-p.options.IdleTime)) }

// CloseIdleConnections closes the connections that nobody uses.
func (p *Pool) CloseIdleConnections() { p.drop(time.Now()) }

// drop closes the connections that have been idle since then or longer. While
// others stay, the reaper comes again.
func (p *Pool) drop(then time.Time) {
	var dropped []*conn
	p.mu.Lock()
	for to, kept := range p.idle {
		n := slices.IndexFunc(kept, func(c *conn) bool { return c.since.After(then) })
		if n < 0 {
			dropped = append(dropped, kept...)
			delete(p.idle, to)
			continue
		}
		dropped = append(dropped, kept[:n]...)
		p.idle[to] = slices.Clone(kept[n:])
	}
	switch {
	case p.reaper == nil:
	case len(p.idle) > 0:
		p.reaper.Reset(p.options.IdleTime)
	default:
		p.reaper.Stop()
		p.reaper = nil
	}
	p.mu.Unlock()
	for _, c := range dropped {
		c.close()
	}
}
