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
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// buffer is the size of a connection's buffers in bytes. maxHead is the largest head of a response in bytes,
	// including preceding 1xx responses.
	buffer  = 4 << 10
	maxHead = 256 << 10
	// small is the largest request body, in bytes, that is written before the response is read: a socket accepts that
	// much without waiting for the server. A larger one is written by its own goroutine, so that an early refusal is
	// read.
	small = 16 << 10
	// maxUnbroken is how many bytes of a body are read before the reader yields its processor. A server that always has
	// more to read would otherwise keep its reader running until the runtime preempts it after 10 ms, and many such
	// servers would delay every step of all other requests.
	maxUnbroken = 16 << 10
	// maxInterim is how many 1xx responses may precede the response.
	maxInterim = 5
)

// conn is a connection that at most one request uses at a time.
type conn struct {
	net.Conn // the socket, or TLS over it

	pool   *Pool
	to     address
	socket *socket
	reader *bufio.Reader
	head   int64       // bytes of a head that may still be read; negative for no limit
	broken bool        // a write has failed
	probe  [1]byte     // clean reads into it
	expiry *time.Timer // closes the connection when it has been idle too long
	ends   time.Time   // when it is too old for another request; zero for never
}

func newConn(p *Pool, to address, made net.Conn) *conn {
	s := newSocket(made)
	c := &conn{pool: p, to: to, Conn: s, socket: s, head: -1}
	c.reader = bufio.NewReaderSize(c, buffer)
	c.expiry = time.AfterFunc(p.options.IdleTime, func() { p.expire(c) })
	if age := p.options.MaxAge; age > 0 {
		now := time.Now()
		c.ends = now.Add(age*9/10 + time.Duration(now.UnixNano()%int64(age/5+1)))
	}
	return c
}

// clean reports whether the peer has neither closed the connection nor sent anything that is unread: in the buffer, in
// the socket, or inside TLS as decrypted text, complete records or part of a record. It doesn't block.
func (c *conn) clean() bool {
	if c.reader.Buffered() > 0 || !c.socket.nothingToRead() {
		return false
	}
	if c.Conn == net.Conn(c.socket) {
		return true
	}
	c.socket.noNetwork = true
	n, err := c.Conn.Read(c.probe[:])
	c.socket.noNetwork = false
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.socket.atRecordEnd()
}

// hasExtraData reports whether clean found bytes of HTTP after the response. Bytes of TLS don't count, because they may
// be a close_notify alert.
func (c *conn) hasExtraData() bool {
	return c.reader.Buffered() > 0 || c.Conn == net.Conn(c.socket) && c.socket.gotByte
}

// close closes the socket without waiting. No close_notify is sent over TLS: HTTP itself marks the end of a response.
func (c *conn) close() { _ = c.socket.Close() }

// Read reads from the connection and limits the size of a response's head.
func (c *conn) Read(p []byte) (int, error) {
	switch {
	case c.head < 0:
		return c.Conn.Read(p)
	case c.head == 0:
		return 0, errors.New("the response headers are too large")
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.head)])
	c.head -= int64(n)
	return n, err
}

// Write writes to the connection and records whether that failed.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.broken = c.broken || err != nil
	return n, err
}

// errBroken is in the error of a request if the connection failed while it was sent. Without it, the request's own body
// failed.
var errBroken = errors.New("connection broken")

// unflushed is a buffered writer that Request.Write doesn't know as one. It flushes the head into a *bufio.Writer that it
// knows before each body of an unknown type, which costs a system call here and another one at the server.
type unflushed struct{ *bufio.Writer }

// writers holds buffers for sending requests: a connection needs one only while it sends.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, buffer) }}

func (c *conn) send(r *http.Request) error {
	writer, _ := writers.Get().(*bufio.Writer)
	writer.Reset(c)
	defer func() {
		writer.Reset(nil)
		writers.Put(writer)
	}()
	var to io.Writer = writer
	if isSmall(r) {
		to = unflushed{writer}
	}
	err := r.Write(to)
	if err == nil {
		err = writer.Flush()
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
			return nil, errors.New("receive: the server switched to another protocol (status 101)")
		case response.StatusCode >= http.StatusOK:
			return response, nil
		}
	}
	return nil, errors.New("receive: the server sent too many 1xx responses")
}

// isSmall reports whether a request is written before its response is read.
func isSmall(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.ContentLength > 0 && r.ContentLength <= small
}

// roundTrip sends a request and reads the head of its response. A large request is written concurrently, because the
// server may refuse it before it has read all of it, or instead of reading it.
func (c *conn) roundTrip(r *http.Request) (*http.Response, error) {
	e := &exchange{conn: c, ctx: r.Context(), sent: make(chan error, 1)}
	e.release = context.AfterFunc(e.ctx, e.interrupt)
	if isSmall(r) {
		e.send(r)
	} else {
		go e.send(r)
	}
	response, err := c.receive(r)
	if err != nil {
		return nil, e.failWithoutResponse(r, err)
	}
	e.reusable = !response.Close && !r.Close
	if response.Body == http.NoBody {
		e.end(e.reusable)
		return response, nil
	}
	e.body, response.Body = response.Body, e
	if slices.Equal(response.TransferEncoding, []string{"chunked"}) {
		response.Body = stream{e}
	}
	return response, nil
}

// Arriving is the body of a response whose length is unknown until it ends.
type Arriving interface {
	io.ReadCloser
	// Await blocks until more of the body arrives or the connection ends, so that a caller needs no buffer until then.
	// Call it only before a Read, and not after Read has returned an error.
	Await()
}

// stream is the body of a chunked response.
type stream struct{ *exchange }

// Await implements Arriving. It waits for more bytes than a line break, because a chunk may leave its line break
// unread. More bytes always follow one: at least the last chunk. The next Read returns any error.
func (s stream) Await() { _, _ = s.conn.reader.Peek(len("\r\n") + 1) }

// exchange is one request and its response on a connection. It is also the response's body.
type exchange struct {
	conn *conn
	ctx  context.Context //nolint:containedctx // It bounds reading the body.
	// release detaches the connection from the context. It returns false if the context has ended.
	release func() bool
	// sent receives the result of sending the request, once.
	sent     chan error
	body     io.ReadCloser
	unbroken int  // bytes of the body since its reader last gave way
	reusable bool // the connection can serve another request after the body
	ended    atomic.Bool
}

// send writes the request. If the request's own body fails, the wait for a response is interrupted.
func (e *exchange) send(r *http.Request) {
	err := e.conn.send(r)
	if err != nil && !errors.Is(err, errBroken) {
		e.interrupt()
	}
	e.sent <- err
}

// wrote reports whether the whole request has been written.
func (e *exchange) wrote() bool { return len(e.sent) == 1 && <-e.sent == nil }

// interrupt ends all reads and writes on the connection.
func (e *exchange) interrupt() { _ = e.conn.SetDeadline(time.Unix(1, 0)) }

// end puts the connection back into the pool if keep is set and it is clean, or closes it. Only the first call has an
// effect.
func (e *exchange) end(keep bool) {
	if e.ended.Swap(true) {
		return
	}
	if keep = keep && e.wrote(); keep {
		if keep = e.conn.clean(); !keep && e.conn.hasExtraData() {
			e.conn.pool.disableReuse(e.conn.to)
		}
	}
	if e.release() && keep && e.conn.pool.keep(e.conn) {
		return
	}
	e.conn.close()
}

func (e *exchange) fail(err error) error {
	e.end(false)
	return failure(e.ctx, err)
}

// failWithoutResponse ends an exchange that got no response. It returns what failed first: the request's own body, or
// the connection.
func (e *exchange) failWithoutResponse(r *http.Request, err error) error {
	err = e.fail(err)
	if r.Body != nil {
		_ = r.Body.Close() // The goroutine that sends may be blocked in it.
	}
	if sent := <-e.sent; sent != nil && !errors.Is(sent, errBroken) {
		return failure(e.ctx, fmt.Errorf("send: %w", sent))
	}
	return err
}

// Read reads the body. At its end the connection is put back into the pool. After each maxUnbroken bytes Read lets other
// goroutines run.
func (e *exchange) Read(p []byte) (int, error) {
	n, err := e.body.Read(p)
	if e.unbroken += n; e.unbroken >= maxUnbroken {
		e.unbroken = 0
		runtime.Gosched()
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		e.end(e.reusable)
		return n, io.EOF
	}
	return n, e.fail(err)
}

// Close closes the connection unless the body has been read to its end. It may be called while another goroutine reads.
func (e *exchange) Close() error {
	e.end(false)
	return nil
}
