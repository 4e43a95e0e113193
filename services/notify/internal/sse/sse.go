// Package sse owns the connection of a server-sent events response (WHATWG HTML, section 9.2). net/http writes the
// head and then hands the connection over, since it would keep two goroutines with grown stacks, four buffers and the
// request for each response. A detached idle response keeps its connection and one goroutine that waits for the
// client to disconnect. internal/api calls it.
package sse

import (
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// WriteTime bounds one write: a client that does not read is disconnected and resumes.
	WriteTime = 10 * time.Second
	// sendBuffer is how much the kernel buffers for a client that does not read, in bytes; its default grows to
	// megabytes.
	sendBuffer = 64 << 10
	// maxReceived bounds what a client may send after its request, in bytes: it is not expected to send anything.
	maxReceived = 4 << 10
)

// lastChunk ends a complete body (RFC 9112, section 7.1).
const lastChunk = "0\r\n\r\n"

// Answer is one stream. It must not be used concurrently.
type Answer struct {
	w       http.ResponseWriter // until it is detached
	conn    net.Conn            // once it is detached
	chunked bool
	broken  bool // a write has failed
}

// Begin writes the head of the response to r.
func Begin(w http.ResponseWriter, r *http.Request) *Answer {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	if r.ProtoMajor == 1 { // over HTTP/2 it would also end the other streams of the connection
		h.Set("Connection", "close")
	}
	w.WriteHeader(http.StatusOK)
	a := &Answer{w: w, chunked: r.ProtoAtLeast(1, 1)}
	_ = a.flush(nil) // The next write reports a client that has disconnected.
	return a
}

// Detach takes the connection from net/http, so that the handler may return; the response then ends with Close. gone
// is called once, when the client has disconnected or the response is closed. Detach reports whether it took the
// connection: one that carries other requests too (HTTP/2) stays, and the handler must stay until the response has ended.
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

// watch reads until the client has disconnected.
func watch(conn net.Conn, gone func()) {
	defer gone()
	text := make([]byte, 64)
	for received := 0; received < maxReceived; {
		n, err := conn.Read(text)
		if err != nil {
			return
		}
		received += n
	}
}

// Write sends text immediately. An error is final.
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

// flush writes through net/http.
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

// chunk encodes text as one chunk of a body of unknown length.
func chunk(text []byte) []byte {
	out := make([]byte, 0, len(text)+20)
	out = strconv.AppendInt(out, int64(len(text)), 16)
	out = append(out, "\r\n"...)
	out = append(out, text...)
	return append(out, "\r\n"...)
}

// Close ends a detached response. A complete one gets its last chunk, by which clients and proxies distinguish it
// from an interrupted one. Data that the kernel still holds for a client that does not read is discarded.
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
	below := wire(a.conn) // TLS would wait to send its close alert
	if c, ok := below.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = below.Close()
}

// wire returns the connection below TLS.
func wire(conn net.Conn) net.Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return conn
}
