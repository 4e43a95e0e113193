package connpool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

const (
	// buffer is the size of a connection's buffers in bytes, maxHead that of the
	// largest head of an answer, 1xx answers before it included.
	buffer  = 4 << 10
	maxHead = 256 << 10
	// small is the largest body that is written before its answer is read: a socket takes that much without waiting for
	// the server. A larger one is written by a goroutine of its own, so that an answer that refuses it early is read.
	small = 16 << 10
	// maxInterim is how many 1xx answers may come before the answer.
	maxInterim = 5
)

// conn is a connection that at most one request uses.
type conn struct {
	net.Conn // The socket, or TLS over it.

	pool   *Pool
	to     address
	socket *socket
	reader *bufio.Reader
	writer *bufio.Writer
	head   int64       // bytes of a head that may still be read; negative: no limit
	broken bool        // It could not be written to.
	probe  [1]byte     // what clean reads into
	expiry *time.Timer // closes it where it is idle
}

func newConn(p *Pool, to address, made net.Conn) *conn {
	s := newSocket(made)
	c := &conn{pool: p, to: to, Conn: s, socket: s, head: -1}
	c.reader, c.writer = bufio.NewReaderSize(c, buffer), bufio.NewWriterSize(c, buffer)
	c.expiry = time.AfterFunc(p.options.IdleTime, func() { p.expire(c) })
	return c
}

// clean reports whether the peer has neither closed the connection nor sent
// anything that is unread: in the buffer, in the socket, as decrypted text or
// whole records inside TLS, or as part of a record. It doesn't wait.
func (c *conn) clean() bool {
	if c.reader.Buffered() > 0 || !c.socket.silent() {
		return false
	}
	if c.Conn == net.Conn(c.socket) {
		return true
	}
	c.socket.dry = true
	n, err := c.Conn.Read(c.probe[:])
	c.socket.dry = false
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.socket.whole()
}

// exceeded reports whether what clean has met was more of an answer: bytes of HTTP,
// not a record of TLS, which may be its farewell.
func (c *conn) exceeded() bool {
	return c.reader.Buffered() > 0 || c.Conn == net.Conn(c.socket) && c.socket.spoke
}

// close doesn't wait: TLS sends no farewell, since HTTP says where an answer ends.
func (c *conn) close() { _ = c.socket.Close() }

// Read bounds the head.
func (c *conn) Read(p []byte) (int, error) {
	switch {
	case c.head < 0:
		return c.Conn.Read(p)
	case c.head == 0:
		return 0, errors.New("the head of the answer is too large")
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

// errBroken is in the error of a request that the connection didn't take; others
// are of the request's body.
var errBroken = errors.New("connection broken")

func (c *conn) send(r *http.Request) error {
	err := r.Write(c.writer)
	if err == nil {
		err = c.writer.Flush()
	}
	if c.broken {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return err
}

func (c *conn) receive(r *http.Request) (*http.Response, error) {
	c.head = maxHead
	defer func() { c.head = -1 }()
	for range maxInterim + 1 {
		response, err := http.ReadResponse(c.reader, r)
		switch {
		case err != nil:
			return nil, fmt.Errorf("receive: %w", err)
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("receive: the server wants another protocol")
		case response.StatusCode >= http.StatusOK:
			return response, nil
		}
	}
	return nil, errors.New("receive: the server goes on with 1xx answers")
}

// exchange sends a request and receives its answer's head. A large request is
// written while the answer is awaited, which may be a refusal that comes before
// the server has read it all, or instead.
func (c *conn) exchange(r *http.Request) (*http.Response, error) {
	u := &use{conn: c, ctx: r.Context(), sent: make(chan error, 1)}
	u.release = context.AfterFunc(u.ctx, u.interrupt)
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength > 0 && r.ContentLength <= small {
		u.send(r)
	} else {
		go u.send(r)
	}
	response, err := c.receive(r)
	if err != nil {
		return nil, u.unanswered(r, err)
	}
	u.keeps = !response.Close && !r.Close
	if response.Body == http.NoBody {
		u.end(u.keeps)
		return response, nil
	}
	u.body, response.Body = response.Body, u
	return response, nil
}

// use is what one request makes of a connection; it is the body of its answer.
type use struct {
	conn *conn
	ctx  context.Context //nolint:containedctx // It bounds the reading of the body.
	// release parts the connection from the context; false: the context has ended.
	release func() bool
	// sent receives once what became of sending the request.
	sent  chan error
	body  io.ReadCloser
	keeps bool // The connection can serve another request after the body.
	ended atomic.Bool
}

// send writes the request. Where its own body fails, no answer is waited for.
func (u *use) send(r *http.Request) {
	err := u.conn.send(r)
	if err != nil && !errors.Is(err, errBroken) {
		u.interrupt()
	}
	u.sent <- err
}

// wrote reports whether the whole request has been written.
func (u *use) wrote() bool { return len(u.sent) == 1 && <-u.sent == nil }

// interrupt ends what waits for the connection.
func (u *use) interrupt() { _ = u.conn.SetDeadline(time.Unix(1, 0)) }

// end gives the connection back, or closes it. Only the first call counts.
func (u *use) end(keep bool) {
	if u.ended.Swap(true) {
		return
	}
	if keep = keep && u.wrote(); keep {
		if keep = u.conn.clean(); !keep && u.conn.exceeded() {
			u.conn.pool.separate(u.conn.to)
		}
	}
	if u.release() && keep && u.conn.pool.keep(u.conn) {
		return
	}
	u.conn.close()
}

func (u *use) fail(err error) error {
	u.end(false)
	return failure(u.ctx, err)
}

// unanswered ends a request without an answer. What failed first is what counts:
// the request's own body, or the connection.
func (u *use) unanswered(r *http.Request, err error) error {
	err = u.fail(err)
	if r.Body != nil {
		_ = r.Body.Close() // It may be waited for.
	}
	if sent := <-u.sent; sent != nil && !errors.Is(sent, errBroken) {
		return failure(u.ctx, fmt.Errorf("send: %w", sent))
	}
	return err
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
