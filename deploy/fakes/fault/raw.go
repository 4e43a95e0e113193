package fault

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const maxEndless = 1 << 30

// The functions here use the connection below net/http. None returns: they panic with http.ErrAbortHandler, since the
// connection has ended.

// cut ends the connection, with a TCP RST when reset is true.
func cut(w http.ResponseWriter, reset bool) {
	if reset {
		conn := hijack(w)
		Reset(conn)
	}
	panic(http.ErrAbortHandler)
}

// Reset closes a connection with a TCP RST, also below TLS.
func Reset(conn net.Conn) {
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = inner.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// halfClose shuts the sending side and reads until the client leaves.
func halfClose(ctx context.Context, w http.ResponseWriter) {
	conn := hijack(w)
	defer closeWith(ctx, conn)()
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, maxEndless))
	panic(http.ErrAbortHandler)
}

// endlessHeaders sends header lines until the client leaves.
func endlessHeaders(ctx context.Context, w http.ResponseWriter) {
	conn := hijack(w)
	defer closeWith(ctx, conn)()
	sent, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
	filler := strings.Repeat("x", 1000)
	for i := 0; err == nil && sent < maxEndless; i++ {
		var n int
		n, err = fmt.Fprintf(conn, "X-Filler-%d: %s\r\n", i, filler)
		sent += n
	}
	panic(http.ErrAbortHandler)
}

// slowHead writes the scripted answer by hand, the head byte by byte.
func (in *Injector) slowHead(w http.ResponseWriter, r *http.Request, a Action) {
	header, body := in.render(r, a)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Connection", "close")
	var head strings.Builder
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", a.StatusCode(), http.StatusText(a.StatusCode()))
	_ = header.Write(&head)
	head.WriteString("\r\n")

	conn := hijack(w)
	defer closeWith(r.Context(), conn)()
	for i := range head.Len() {
		if _, err := io.WriteString(conn, head.String()[i:i+1]); err != nil || !wait(r.Context(), a.SlowHeadMS) {
			panic(http.ErrAbortHandler)
		}
	}
	_, _ = io.WriteString(conn, body)
	panic(http.ErrAbortHandler)
}

// hijack takes the connection over. Where that isn't possible (HTTP/2, a recorder), it aborts the call.
func hijack(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return conn
}

// closeWith closes a taken connection when ctx ends or after ten minutes. The function it returns closes it at once.
func closeWith(ctx context.Context, conn net.Conn) func() {
	_ = conn.SetDeadline(time.Now().Add(maxWait))
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return func() {
		stop()
		_ = conn.Close()
	}
}
