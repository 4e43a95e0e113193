// Package sse owns the connection of an answer of server-sent events (WHATWG
// HTML, section 9.2). net/http writes the head and then lets go of it, since it
// would keep two goroutines with grown stacks, four buffers and the request for
// each answer: detached, an idle one keeps its connection and a goroutine that
// waits for the caller to leave. internal/api calls it.
package sse

import (
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// WriteTime bounds one write: a reader that takes nothing is cut and resumes.
	WriteTime = 10 * time.Second
	// sendBuffer is what the kernel may hold, in bytes, for a reader that takes
	// nothing; by itself it would go up to megabytes.
	sendBuffer = 64 << 10
	// mostSaid bounds what a caller may send after its request, in bytes: it has
	// nothing to say.
	mostSaid = 4 << 10
)

// lastChunk ends a body that is whole (RFC 9112, section 7.1).
const lastChunk = "0\r\n\r\n"

// Answer is one stream. One goroutine at a time may use it.
type Answer struct {
	w       http.ResponseWriter // until it is detached
	conn    net.Conn            // from then on
	chunked bool
	broken  bool // in the midst of a write
}

// Begin writes the head of the answer to r.
func Begin(w http.ResponseWriter, r *http.Request) *Answer {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	if r.ProtoMajor == 1 { // over HTTP/2 it would end the streams beside it, too
		h.Set("Connection", "close")
	}
	w.WriteHeader(http.StatusOK)
	a := &Answer{w: w, chunked: r.ProtoAtLeast(1, 1)}
	_ = a.flush(nil) // A caller that has left is found by the next write.
	return a
}

// Detach takes the connection from net/http, so that the handler may return; then
// the answer ends with Close. gone is called once, when the caller has left or
// the answer is closed. It is false where the connection carries other calls
// too (HTTP/2): the handler then stays until the answer has ended.
func (a *Answer) Detach(gone func()) bool {
	conn, _, err := http.NewResponseController(a.w).Hijack()
	if err != nil {
		return false
	}
	if c, ok := wire(conn).(*net.TCPConn); ok {
		_ = c.SetWriteBuffer(sendBuffer)
	}
	a.w, a.conn = nil, conn
	go watch(conn, gone)
	return true
}

// watch reads until the caller has left.
func watch(conn net.Conn, gone func()) {
	defer gone()
	text := make([]byte, 64)
	for said := 0; said < mostSaid; {
		n, err := conn.Read(text)
		if err != nil {
			return
		}
		said += n
	}
}

// Write sends text at once. An error is for good.
func (a *Answer) Write(text []byte) error {
	err := a.write(text)
	a.broken = a.broken || err != nil
	return err
}

func (a *Answer) write(text []byte) error {
	if a.conn == nil {
		return a.flush(text)
	}
	if a.chunked {
		text = chunk(text)
	}
	return a.send(text)
}

// flush writes by way of net/http.
func (a *Answer) flush(text []byte) error {
	control := http.NewResponseController(a.w)
	_ = control.SetWriteDeadline(time.Now().Add(WriteTime))
	if _, err := a.w.Write(text); err != nil {
		return err
	}
	return control.Flush()
}

func (a *Answer) send(text []byte) error {
	if err := a.conn.SetWriteDeadline(time.Now().Add(WriteTime)); err != nil {
		return err
	}
	_, err := a.conn.Write(text)
	return err
}

// chunk frames text as one chunk of a body of unknown length.
func chunk(text []byte) []byte {
	out := make([]byte, 0, len(text)+20)
	out = strconv.AppendInt(out, int64(len(text)), 16)
	out = append(out, "\r\n"...)
	out = append(out, text...)
	return append(out, "\r\n"...)
}

// Close ends an answer that is detached. A whole one has its last chunk, by which
// readers and proxies tell it from one that was cut. What the kernel holds for a
// reader that takes nothing is given up.
func (a *Answer) Close(whole bool) {
	if a.conn == nil {
		return
	}
	if whole && a.chunked && !a.broken {
		a.broken = a.send([]byte(lastChunk)) != nil
	}
	if !a.broken {
		_ = a.conn.Close()
		return
	}
	below := wire(a.conn) // TLS would wait to say goodbye
	if c, ok := below.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = below.Close()
}

// wire is the connection below TLS.
func wire(conn net.Conn) net.Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return conn
}
