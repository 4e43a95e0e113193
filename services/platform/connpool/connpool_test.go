package connpool_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience ends a test that would hang; no measurement depends on it.
const patience = 10 * time.Second

// transports must give the same result with every server.
func transports(t *testing.T) map[string]http.RoundTripper {
	t.Helper()
	pool, standard := connpool.New(connpool.Options{}), &http.Transport{DisableCompression: true}
	t.Cleanup(pool.CloseIdleConnections)
	t.Cleanup(standard.CloseIdleConnections)
	return map[string]http.RoundTripper{"pool": pool, "net/http": standard}
}

// script is a server of one response per connection: it reads a request's head and the announced length of its body,
// and writes the text.
func script(t *testing.T, words string) (url string, connections *atomic.Int64) {
	t.Helper()
	return converse(t, func(c net.Conn, from *bufio.Reader) {
		for {
			r, err := http.ReadRequest(from)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if _, err = io.WriteString(c, words); err != nil || strings.Contains(words, "Connection: close") || !strings.Contains(words, "HTTP/1.1") {
				return
			}
		}
	})
}

// converse is a server that runs the given function on each connection and then closes it.
func converse(t *testing.T, talk func(net.Conn, *bufio.Reader)) (url string, connections *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	connections = new(atomic.Int64)
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			all.Go(func() {
				defer context.AfterFunc(ctx, func() { _ = c.Close() })()
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				talk(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		end()
		all.Wait()
	})
	return "http://" + listener.Addr().String(), connections
}

func post(ctx context.Context, t *testing.T, transport http.RoundTripper, url, body string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return transport.RoundTrip(r)
}

// say makes a call and returns its result as one line.
func say(t *testing.T, transport http.RoundTripper, url string) string {
	t.Helper()
	response, err := post(t.Context(), t, transport, url, "question")
	if err != nil {
		return "no answer"
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	said := fmt.Sprint(response.StatusCode, " ", string(text))
	if err != nil {
		said += ", cut"
	}
	return said
}

// Every form of a response is read as net/http reads it, and leaves the connection usable or not.
func TestAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	tests := map[string]struct {
		words, said string
		connections int64 // opened by three calls
	}{
		"length":             {ok + "Content-Length: 4\r\n\r\ntext", "200 text", 1},
		"empty":              {ok + "Content-Length: 0\r\n\r\n", "200 ", 1},
		"no content":         {"HTTP/1.1 204 No Content\r\n\r\n", "204 ", 1},
		"chunks":             {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nte\r\n2\r\nxt\r\n0\r\n\r\n", "200 text", 1},
		"chunks and trailer": {ok + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n4\r\ntext\r\n0\r\nX: y\r\n\r\n", "200 text", 1},
		"interim":            {"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok + "Content-Length: 4\r\n\r\ntext", "200 text", 1},
		"refusal":            {"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\ntext", "429 text", 1},
		"more than asked":    {ok + "Content-Length: 4\r\n\r\ntextHTTP/1.1 408 Request Timeout\r\n\r\n", "200 text", 3},
		"to the end":         {ok + "Connection: close\r\n\r\ntext", "200 text", 3},
		"announced close":    {ok + "Connection: close\r\nContent-Length: 4\r\n\r\ntext", "200 text", 3},
		"HTTP/1.0":           {"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\ntext", "200 text", 3},
		"cut":                {ok + "Connection: close\r\nContent-Length: 9\r\n\r\ntext", "200 text, cut", 3},
		"cut chunk":          {ok + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ntext", "200 text, cut", 3},
		"cut head":           {"HTTP/1.", "no answer", 3},
		"no HTTP":            {"220 ready\r\n\r\n", "no answer", 3},
		"no words":           {"", "no answer", 3},
		"another protocol":   {"HTTP/1.0 101 Switching Protocols\r\n\r\n", "no answer", 3},
		"too many interim":   {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 6) + ok + "Connection: close\r\n\r\n", "no answer", 3},
		"endless head":       {ok + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 300) + "Connection: close\r\n\r\n", "no answer", 3},
	}
	// net/http has other limits, permits switching protocols, and detects extra bytes only later.
	ours := []string{"endless head", "too many interim", "another protocol", "more than asked"}
	for name, tt := range tests {
		for by, transport := range transports(t) {
			if by == "net/http" && slices.Contains(ours, name) {
				continue
			}
			t.Run(name+"/"+by, func(t *testing.T) {
				url, connections := script(t, tt.words)
				for range 3 {
					if said := say(t, transport, url); said != tt.said {
						t.Errorf("said %q, want %q", said, tt.said)
					}
				}
				if got := connections.Load(); got != tt.connections {
					t.Errorf("%d connections, want %d", got, tt.connections)
				}
			})
		}
	}
}

// A request arrives as net/http would send it.
func TestRequests(t *testing.T) {
	seen := make(chan string, 1)
	url, _ := converse(t, func(c net.Conn, from *bufio.Reader) {
		r, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		seen <- fmt.Sprint(r.Method, r.RequestURI, r.Host, r.Header, r.ContentLength, r.TransferEncoding, string(body), err)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	for name, body := range map[string]func() io.Reader{
		"none":           func() io.Reader { return nil },
		"known length":   func() io.Reader { return strings.NewReader(strings.Repeat("x", 100_000)) },
		"unknown length": func() io.Reader { return io.MultiReader(strings.NewReader("some "), strings.NewReader("more")) },
	} {
		t.Run(name, func(t *testing.T) {
			reported := map[string]string{}
			for by, transport := range transports(t) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/path?q=1", body())
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-One", "1")
				response, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				reported[by] = <-seen
			}
			if reported["pool"] != reported["net/http"] {
				t.Errorf("pool:     %.300s\nnet/http: %.300s", reported["pool"], reported["net/http"])
			}
		})
	}
}

// A URL that can't be called returns an error that keeps its kind, and the body is closed.
func TestNoConnection(t *testing.T) {
	const closed = "http://127.0.0.1:1" // a port of a closed server could soon be another's
	pool := connpool.New(connpool.Options{})
	for _, url := range []string{closed, "ftp://127.0.0.1/", "http:///path"} {
		body := &closing{Reader: strings.NewReader("x")}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := pool.RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
			t.Errorf("%s: no error", url)
		}
		if op, ok := errors.AsType[*net.OpError](err); url == closed && (!ok || op.Op != "dial") {
			t.Errorf("%s: %v, want that of a dial", url, err)
		}
		if !body.closed.Load() {
			t.Errorf("%s: the body was not closed", url)
		}
	}
}

// A header with an invalid value isn't sent, and the error doesn't contain the value.
func TestHeaderIsNotValid(t *testing.T) {
	const key = "sk-canary-19af"
	for by, transport := range transports(t) {
		for name, header := range map[string]http.Header{
			"value": {"Authorization": {key + "\r\nX-More: 1"}}, "name": {"X Y": {key}}, "method": {},
		} {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/", http.NoBody)
			if r.Header = header; name == "method" {
				r.Method = "G ET"
			}
			response, err := transport.RoundTrip(r)
			if err == nil {
				_ = response.Body.Close()
			}
			if _, dialed := errors.AsType[*net.OpError](err); err == nil || dialed {
				t.Errorf("%s by %s: err = %v", name, by, err)
				continue
			}
			testkit.NoLeak(t, key, err.Error())
		}
	}
}

type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Close() error { c.closed.Store(true); return nil }

// The pool keeps TLS connections too, and checks the server's name.
func TestTLS(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	trusting, ok := server.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("not the transport expected")
	}
	over := func(config *tls.Config) *connpool.Pool {
		return connpool.New(connpool.Options{TLS: func() *tls.Config { return config }})
	}
	pool := over(trusting.TLSClientConfig)
	defer pool.CloseIdleConnections()
	for range 3 {
		if said := say(t, pool, server.URL); said != "200 HTTP/1.1" {
			t.Error(said)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	wrong := trusting.TLSClientConfig.Clone()
	wrong.ServerName = "elsewhere.test"
	for name, config := range map[string]*tls.Config{"unknown root": {}, "wrong name": wrong} {
		response, err := post(t.Context(), t, over(config), server.URL, "")
		if err == nil {
			_ = response.Body.Close()
		}
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

// countedPool is a pool whose connections lead to a server of this process, in a bubble of synctest.
type countedPool struct {
	*connpool.Pool

	open, dialed atomic.Int64
}

func newCountedPool(o connpool.Options) *countedPool {
	p := &countedPool{}
	o.Dial = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		p.open.Add(1)
		p.dialed.Add(1)
		go func() {
			defer p.open.Add(-1)
			for from := bufio.NewReader(server); ; {
				if _, err := http.ReadRequest(from); err != nil {
					return
				}
				_, _ = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntext")
			}
		}()
		return client, nil
	}
	p.Pool = connpool.New(o)
	return p
}

// call returns the body of an answer, which ends the call when it is read.
func (p *countedPool) call(t *testing.T) io.Reader {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://vendor.test/", http.NoBody)
	response, err := p.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response.Body
}

func (p *countedPool) expect(t *testing.T, when string, wantOpen, wantDialed int64) {
	t.Helper()
	synctest.Wait()
	if p.open.Load() != wantOpen || p.dialed.Load() != wantDialed {
		t.Errorf("%s: %d open, %d dialed; want %d, %d", when, p.open.Load(), p.dialed.Load(), wantOpen, wantDialed)
	}
}

// Idle connections are limited in number and time.
func TestIdleConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newCountedPool(connpool.Options{IdlePerHost: 2, IdleTime: time.Minute})
		for _, body := range []io.Reader{pool.call(t), pool.call(t), pool.call(t)} {
			_, _ = io.ReadAll(body)
		}
		pool.expect(t, "three calls at once", 2, 3)
		time.Sleep(40 * time.Second)
		_, _ = io.ReadAll(pool.call(t))
		pool.expect(t, "a call later", 2, 3)
		time.Sleep(50 * time.Second)
		pool.expect(t, "the other one's time", 1, 3)
		time.Sleep(time.Minute)
		pool.expect(t, "nobody calls", 0, 3)
		_, _ = io.ReadAll(pool.call(t))
		pool.expect(t, "a call after it", 1, 4)
		pool.CloseIdleConnections()
		pool.expect(t, "all closed", 0, 4)
	})
}

// A connection that is used all the time ends, too, with the call after its age.
func TestConnectionsGetNoOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newCountedPool(connpool.Options{IdleTime: time.Minute, MaxAge: time.Minute})
		for range 53 { // A tenth before the age
			_, _ = io.ReadAll(pool.call(t))
			time.Sleep(time.Second)
		}
		pool.expect(t, "before the age", 1, 1)
		for range 20 {
			_, _ = io.ReadAll(pool.call(t))
			time.Sleep(time.Second)
		}
		pool.expect(t, "after it", 1, 2)
		pool.CloseIdleConnections()
		pool.expect(t, "all closed", 0, 2)
	})
}

// Many callers share the connections and some cancel their calls: each gets its own response.
func TestManyCallers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for range 20 {
			_, _ = w.Write(body)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	defer server.Close()
	pool := connpool.New(connpool.Options{IdlePerHost: 8})
	defer pool.CloseIdleConnections()
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			for n := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				own := fmt.Sprintf("<%d %d>", i, n)
				response, err := post(ctx, t, pool, server.URL, own)
				if err != nil {
					t.Errorf("%s: %v", own, err)
					cancel()
					continue
				}
				if n%5 == 1 {
					cancel()
				}
				text, err := io.ReadAll(response.Body)
				if whole := strings.Repeat(own, 20); !strings.HasPrefix(whole, string(text)) || err == nil && string(text) != whole {
					t.Errorf("%s was told %.60s, %v", own, text, err)
				}
				_ = response.Body.Close()
				cancel()
			}
		})
	}
	callers.Wait()
}

// A caller can wait for a chunked response without a buffer, whether or not a chunk's line break arrives with the
// chunk.
func TestAwait(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, pieces := range map[string][]string{
		"whole chunks":          {head, "3\r\none\r\n", "3\r\ntwo\r\n", "0\r\n\r\n"},
		"line breaks come late": {head, "3\r\none", "\r\n3\r\ntwo", "\r\n0\r\n\r\n"},
		"byte by byte":          append([]string{head}, strings.Split("3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", "")...),
		"all at once":           {head + "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			go func() {
				_, _ = http.ReadRequest(bufio.NewReader(server))
				for _, piece := range pieces {
					_, _ = io.WriteString(server, piece)
				}
			}()
			pool := connpool.New(connpool.Options{Dial: func(context.Context, string, string) (net.Conn, error) { return client, nil }})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://service/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := pool.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, ok := response.Body.(connpool.Arriving)
			if !ok {
				t.Fatal("the body of a chunked response can't be awaited")
			}
			var got strings.Builder
			for err == nil {
				body.Await()
				var piece [100]byte
				var n int
				n, err = body.Read(piece[:])
				got.Write(piece[:n])
			}
			if got.String() != "onetwo" || !errors.Is(err, io.EOF) {
				t.Errorf("%q, %v", got.String(), err)
			}
		})
	}
}
