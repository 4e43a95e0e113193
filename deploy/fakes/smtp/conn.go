package smtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	gosmtp "github.com/emersion/go-smtp"

	"switchyard.dev/deploy/fakes/fault"
)

// listener accepts connections to which the script can apply faults.
type listener struct {
	net.Listener
	server *Server
	ctx    context.Context //nolint:containedctx // the life of the server, which Accept has no argument for
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	ctx, leave := context.WithCancel(l.ctx)
	context.AfterFunc(ctx, func() { _ = raw.Close() })
	return &conn{Conn: raw, server: l.server, ctx: ctx, leave: leave}, nil
}

// conn is the TCP connection below the mail server, which writes to it from one
// goroutine: the greeting first, then one reply at a time.
type conn struct {
	net.Conn
	server *Server
	ctx    context.Context //nolint:containedctx // the life of the connection itself
	leave  context.CancelFunc

	greeted bool
	// hangUp closes the connection after the next reply.
	hangUp bool
}

// Write passes a reply on. Instead of the greeting, the script may refuse the connection.
func (c *conn) Write(p []byte) (int, error) {
	if !c.greeted {
		c.greeted = true
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		if err := c.apply(fault.Call{Method: "CONNECT", Path: host}); err != nil {
			return c.refuse(err)
		}
	}
	n, err := c.Conn.Write(p)
	if c.hangUp {
		_ = c.Close()
	}
	return n, err
}

// refuse ends a connection that was not greeted yet.
func (c *conn) refuse(cause error) (int, error) {
	reply, ok := errors.AsType[*gosmtp.SMTPError](cause)
	if !ok {
		return 0, cause
	}
	c.hangUp = true
	return fmt.Fprintf(c, "%d %s\r\n", reply.Code, reply.Message)
}

// Close ends the connection and all waits on it.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// cut ends the connection without a reply.
func (c *conn) cut(reset bool) {
	c.leave()
	if reset {
		fault.Reset(c.Conn)
	}
	_ = c.Conn.Close()
}

// pause waits as the script demands, or until the server closes the connection.
func (c *conn) pause(ms int) {
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
	}
}
