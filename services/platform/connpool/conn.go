package connpool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// writeBuffer of a connection in bytes.
	writeBuffer = 4 << 10
	// maxInterim is how many 1xx answers may come before the answer.
	maxInterim = 5
	// fresh is how long a connection is taken again unlooked at: within a network's
	// way its peer may close it after a look as well.
	fresh = time.Millisecond
)

// conn is a connection that at most one request uses.
type conn struct {
	net.Conn

	pool   *Pool
	to     address
	raw    net.Conn // below TLS
	reader *bufio.Reader
	writer *bufio.Writer
	head   int64     // bytes of a head that may still be read; negative: no limit
	broken bool      // it could not be written to
	since  time.Time // when it became idle
}

func newConn(p *Pool, to address, made net.Conn) *conn {
	c := &conn{pool: p, to: to, Conn: made, raw: made, head: -1}
	if secured, ok := made.(interface{ NetConn() net.Conn }); ok {
		c.raw = secured.NetConn()
	}
	c.reader, c.writer = bufio.NewReaderSize(c, p.options.ReadBuffer), bufio.NewWriterSize(c, writeBuffer)
	return c
}

// usable tells whether an idle connection may be used: not for too long unused,
// and its peer has neither closed it nor said what nobody asked for.
func (c *conn) usable(now time.Time) bool {
	idle := now.Sub(c.since)
	return idle < fresh || idle < c.pool.options.IdleTime && silent(c.raw)
}

// close waits for nobody: TLS is not told, since HTTP says where an answer ends.
func (c *conn) close() { _ = c.raw.Close() }

var errHead = errors.New("the head of the answer is too large")

// Read bounds the head.
func (c *conn) Read(p []byte) (int, error) {
	switch {
	case c.head < 0:
		return c.Conn.Read(p)
	case c.head == 0:
		return 0, errHead
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.head)])
	c.head -= int64(n)
	return n, err
}

// Write notes that it is the connection that fails.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.broken = c.broken || err != nil
	return n, err
}

// exchange sends a request and receives its answer's head. A server that closes
// before it has read all of a request may have said why.
func (c *conn) exchange(r *http.Request) (*http.Response, error) {
	u := &use{conn: c, ctx: r.Context()}
	u.release = context.AfterFunc(u.ctx, u.interrupt)
	if err := c.send(r); err != nil && !c.broken {
		return nil, u.fail(fmt.Errorf("send: %w", err))
	}
	response, err := c.receive(r)
	if err != nil {
		return nil, u.fail(fmt.Errorf("receive: %w", err))
	}
	u.keeps = !c.broken && !response.Close && !r.Close
	if response.Body == http.NoBody {
		u.end(u.keeps)
		return response, nil
	}
	u.body, response.Body = response.Body, u
	return response, nil
}

func (c *conn) send(r *http.Request) error {
	if err := r.Write(c.writer); err != nil {
		return err
	}
	return c.writer.Flush()
}

func (c *conn) receive(r *http.Request) (*http.Response, error) {
	c.head = c.pool.options.MaxHead
	defer func() { c.head = -1 }()
	for range maxInterim + 1 {
		response, err := http.ReadResponse(c.reader, r)
		switch {
		case err != nil:
			return nil, err
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the server wants another protocol")
		case response.StatusCode >= http.StatusOK:
			return response, nil
		}
	}
	return nil, errors.New("the server goes on with 1xx answers")
}

// use is what one request makes of a connection; it is the body of its answer.
type use struct {
	conn *conn
	ctx  context.Context //nolint:containedctx // It bounds the reading of the body.
	// release parts the connection from the context; false: the context has ended.
	release func() bool
	body    io.ReadCloser
	keeps   bool // the connection can serve another request after the body
	ended   atomic.Bool
}

// interrupt ends what waits for the connection.
func (u *use) interrupt() { _ = u.conn.SetDeadline(time.Unix(1, 0)) }

// end gives the connection back, or closes it. Only the first call counts.
func (u *use) end(keep bool) {
	if u.ended.Swap(true) {
		return
	}
	if u.release() && keep && u.conn.reader.Buffered() == 0 && u.conn.pool.keep(u.conn) {
		return
	}
	u.conn.close()
}

func (u *use) fail(err error) error {
	u.end(false)
	return failure(u.ctx, err)
}

// Read reads the body; its end gives the connection back.
func (u *use) Read(p []byte) (int, error) {
	n, err := u.body.Read(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		u.end(u.keeps)
		return n, io.EOF
	}
	return n, u.fail(err)
}

// Close may be called while another goroutine reads.
func (u *use) Close() error {
	u.end(false)
	return nil
}
