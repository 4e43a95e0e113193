package fault

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// A behaviour without an end sends at most endlessRate bytes a second, so that
	// the fake leaves the processors to the services under test.
	endlessPiece = 64 << 10
	endlessPause = 2 * time.Millisecond
	// maxHostile bounds the time of one behaviour.
	maxHostile = time.Minute
	// maxHold bounds how long an idle connection is kept open: without reading, the fake
	// can't notice that the client has left.
	maxHold = 10 * time.Second
)

// Conn is a connection taken over from net/http. After a client has left, its methods do nothing.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
	ctx  context.Context //nolint:containedctx // lives as long as the call
	gone bool
}

// Raw takes the connection over, calls write and closes the connection. It does not return, because net/http has
// nothing left to do.
func (x *Exchange) Raw(write func(*Conn)) {
	conn, buffered, err := http.NewResponseController(x.Writer).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer closeWith(x.Request.Context(), conn)()
	_ = conn.SetDeadline(time.Now().Add(maxHostile))
	// The reader keeps its buffer: an error on it would end the request's context, and with it the connection.
	ahead, _ := buffered.Peek(buffered.Reader.Buffered())
	in := bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(ahead)), conn))
	write(&Conn{conn: conn, in: in, ctx: x.Request.Context()})
	panic(http.ErrAbortHandler)
}

// Send sends a text.
func (c *Conn) Send(text string) {
	if c.gone {
		return
	}
	_, err := io.WriteString(c.conn, text)
	c.gone = err != nil
}

// Pause waits for d, or until the call ends.
func (c *Conn) Pause(d time.Duration) {
	c.gone = c.gone || !wait(c.ctx, int(d.Milliseconds()))
}

// Trickle sends the first most bytes of a text one by one, pause apart, and the rest at once. A byte that is late on a
// busy machine does not delay those after it.
func (c *Conn) Trickle(text string, most int, pause time.Duration) {
	most = min(most, len(text))
	next := time.Now()
	for i := range most {
		c.Send(text[i : i+1])
		next = next.Add(pause)
		c.Pause(max(time.Until(next), 0))
	}
	c.Send(text[most:])
}

// Endless repeats a piece until the client leaves, at a bounded rate and at most 1 GiB of it.
func (c *Conn) Endless(piece string) {
	block := strings.Repeat(piece, max(endlessPiece/max(len(piece), 1), 1))
	for sent := 0; sent < maxEndless && !c.gone; sent += len(block) {
		c.Send(block)
		c.Pause(endlessPause)
	}
}

// EndlessChunks is Endless in chunks of a chunked body.
func (c *Conn) EndlessChunks(piece string) {
	block := strings.Repeat(piece, max(endlessPiece/max(len(piece), 1), 1))
	c.Endless(chunk(block))
}

// Chunk sends a chunk of a chunked body, nothing for an empty text.
func (c *Conn) Chunk(text string) {
	if text != "" {
		c.Send(chunk(text))
	}
}

// Hold keeps the connection open for ten seconds without reading from it or
// writing to it.
func (c *Conn) Hold() { c.Pause(maxHold) }

// HoldUntilLeft keeps the connection open and discards what comes, until the client
// leaves or after a minute.
func (c *Conn) HoldUntilLeft() {
	_, _ = io.Copy(io.Discard, io.LimitReader(c.in, maxEndless))
	c.gone = true
}

// ReceivedMore reports whether the client has sent more.
func (c *Conn) ReceivedMore() bool {
	_ = c.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.in.Peek(1)
	_ = c.conn.SetReadDeadline(time.Now().Add(maxHostile))
	return err == nil
}

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// Kept calls write with the fake's own answer and then gives the connection back: the fake serves further requests on
// it as on any other.
func (x *Exchange) Kept(write func(*Conn, Recorded)) {
	answer := x.Own()
	x.Raw(func(c *Conn) {
		write(c, answer)
		if c.gone {
			return
		}
		srv := &http.Server{Handler: x.face, ReadHeaderTimeout: maxHostile}
		_ = srv.Serve(&oneConn{conn: &keptConn{Conn: c.conn, in: c.in, closed: make(chan struct{})}}) // ends with the connection
	})
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn  *keptConn
	taken bool
}

// Accept returns the connection; the next call waits for its end.
func (l *oneConn) Accept() (net.Conn, error) {
	if l.taken {
		<-l.conn.closed
		return nil, net.ErrClosed
	}
	l.taken = true
	return l.conn, nil
}

func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
func (l *oneConn) Close() error   { return nil }

// keptConn is a connection from which some bytes have been read ahead.
type keptConn struct {
	net.Conn

	in     *bufio.Reader
	once   sync.Once
	closed chan struct{}
}

func (c *keptConn) Read(p []byte) (int, error) { return c.in.Read(p) }

func (c *keptConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// NetConn returns the connection below.
func (c *keptConn) NetConn() net.Conn { return c.Conn }
