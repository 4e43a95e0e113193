// Package smtp pools connections to the operator's mail server and sends one mail at a time over each. The email
// channel uses it. It implements the SMTP client, and decides when connections are kept, checked and closed, and what a
// reply means. go-mail implements the login mechanisms.
package smtp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"switchyard.dev/services/platform/secret"
)

// Security is how a connection is encrypted.
type Security string

// The kinds. None is for a mail server on the same machine, in development.
const (
	StartTLS Security = "starttls"
	Implicit Security = "tls"
	None     Security = "none"
)

const (
	// A connection that was idle for checkAfter is checked before use; after maxIdle, maxAge or maxMails it is
	// replaced.
	checkAfter = 5 * time.Second
	maxIdle    = 30 * time.Second
	maxAge     = 5 * time.Minute
	maxMails   = 500
	// dialTimeout bounds everything up to the login, quitTimeout a QUIT.
	dialTimeout = 10 * time.Second
	quitTimeout = time.Second
)

// Options configures a Pool.
type Options struct {
	// Address is that of the server, host:port.
	Address  string
	Security Security
	// Roots verify the server's certificate; nil for the system's.
	Roots *x509.CertPool
	// Username and Password authenticate; with an empty Username there is no login. Password is called for each new
	// connection, so that the password can be replaced.
	Username string
	Password func() (secret.Value, error)
	// Hello is the host name sent in EHLO.
	Hello string
	// Connections bounds the concurrent connections.
	Connections int
}

// Pool sends mail over pooled connections. It is safe for concurrent use.
type Pool struct {
	o          Options
	host       string
	connecting chan struct{} // a slot for each connection

	mu     sync.Mutex
	idle   []*conn // the last used at the end
	closed bool
}

// conn is a connection that is logged in.
type conn struct {
	*protocol

	raw   net.Conn
	born  time.Time
	used  time.Time
	mails int
}

// New returns a Pool that connects when the first mail is sent.
func New(o Options) (*Pool, error) {
	host, portText, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("mail server %q: want host:port", o.Address)
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 1 || port > 65535 || host == "" {
		return nil, fmt.Errorf("mail server %q: want host:port", o.Address)
	}
	if o.Security == None && !loopback(host) {
		return nil, fmt.Errorf("mail server %q: without encryption only on the machine itself", o.Address)
	}
	return &Pool{o: o, host: host, connecting: make(chan struct{}, o.Connections)}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Send sends a mail, whose lines end in CRLF, to one recipient. ctx bounds all of it.
func (p *Pool) Send(ctx context.Context, from, to string, data []byte) Reply {
	if !isPath(from) {
		return Reply{Stage: StageSender, Code: codeAddress, Err: errAddress}
	}
	if !isPath(to) {
		return Reply{Stage: StageRecipient, Code: codeAddress, Err: errAddress}
	}
	select {
	case p.connecting <- struct{}{}:
	case <-ctx.Done():
		return Reply{Stage: StageConnect, Err: context.Cause(ctx)}
	}
	defer func() { <-p.connecting }()

	c, reused, err := p.get(ctx)
	if err != nil {
		return replyOf(StageConnect, err)
	}
	reply := c.send(ctx, from, to, data)
	if reused && (reply.Code == 0 || reply.Code == codeClosing) && reply.Stage == StageSender && ctx.Err() == nil {
		// The server has closed the pooled connection, or announced that with 421, and has taken nothing.
		c.drop()
		if c, err = p.dial(ctx); err != nil {
			return replyOf(StageConnect, err)
		}
		reply = c.send(ctx, from, to, data)
	}
	p.put(c, reply)
	return reply
}

// Close quits the idle connections. Those in use close after their mail.
func (p *Pool) Close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		c.quit()
	}
}

// get returns the idle connection that was used last, or a new one.
func (p *Pool) get(ctx context.Context) (c *conn, reused bool, err error) {
	for {
		c = p.pop()
		if c == nil {
			c, err = p.dial(ctx)
			return c, false, err
		}
		now := time.Now()
		if now.Sub(c.used) > maxIdle || now.Sub(c.born) > maxAge || c.mails >= maxMails {
			c.quit()
			continue
		}
		if now.Sub(c.used) > checkAfter && !c.alive() {
			c.drop()
			continue
		}
		return c, true, nil
	}
}

func (p *Pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	c := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return c
}

// put returns a connection that is fit for another mail to the pool. After a refusal it resets the server's
// transaction first.
func (p *Pool) put(c *conn, r Reply) {
	switch {
	case r.Err != nil && r.Code == 0, r.Code == codeClosing, c.surplus():
		c.drop()
		return
	case r.Err != nil && !c.reset():
		c.drop()
		return
	}
	c.used = time.Now()
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if closed {
		c.quit()
	}
}

// dial connects and logs in.
func (p *Pool) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var password secret.Value
	if p.o.Username != "" {
		var err error
		if password, err = p.o.Password(); err != nil {
			return nil, fmt.Errorf("%w: %w", errPassword, err)
		}
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.o.Address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Now()) })
	defer stop()
	opened, err := p.open(ctx, raw, password)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	now := time.Now()
	return &conn{protocol: opened, raw: raw, born: now, used: now}, nil
}

// open greets the server, encrypts the connection as configured, and logs in.
func (p *Pool) open(ctx context.Context, raw net.Conn, password secret.Value) (*protocol, error) {
	secure := &tls.Config{ServerName: p.host, RootCAs: p.o.Roots, MinVersion: tls.VersionTLS12}
	var c net.Conn = &boundConn{Conn: raw}
	if p.o.Security == Implicit {
		over := tls.Client(c, secure)
		if err := over.HandshakeContext(ctx); err != nil {
			return nil, &tlsError{err}
		}
		c = over
	}
	opened, err := newProtocol(c)
	if err != nil {
		return nil, err
	}
	if err := opened.hello(p.o.Hello); err != nil {
		return nil, err
	}
	if p.o.Security == StartTLS {
		if err := opened.startTLS(ctx, secure, p.o.Hello); err != nil {
			return nil, err
		}
	}
	if p.o.Username == "" {
		return opened, nil
	}
	return opened, opened.authenticate(p.host, &login{host: p.host, username: p.o.Username, password: password})
}

// errPassword reports that the password cannot be read.
var errPassword = errors.New("smtp: no password")

// tlsError is a failed handshake.
type tlsError struct{ cause error }

func (e *tlsError) Error() string { return "tls: " + e.cause.Error() }
func (e *tlsError) Unwrap() error { return e.cause }
