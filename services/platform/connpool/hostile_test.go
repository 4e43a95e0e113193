package connpool_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"switchyard.dev/services/platform/connpool"
)

// newPool returns a pool that keeps all connections and trusts the test's servers.
func newPool(t *testing.T, trusting *tls.Config) *connpool.Pool {
	t.Helper()
	pool := connpool.New(connpool.Options{IdlePerHost: 4096, TLS: func() *tls.Config { return trusting }})
	t.Cleanup(pool.CloseIdleConnections)
	return pool
}

// ask sends id and returns the response.
func ask(ctx context.Context, c http.RoundTripper, url, id string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(id))
	if err != nil {
		return 0, "", err
	}
	r.GetBody = nil
	response, err := c.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

const head = "HTTP/1.1 200 OK\r\n"

func sized(text string) string {
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(text), text)
}

// foreign is a response that no caller may get: its text names another request.
func foreign(id string) string { return sized("foreign " + id) }

// extras are responses followed by more than was asked for, as pieces that are sent in one segment. want is the text
// that the caller with the id gets.
var extras = map[string]struct {
	pieces func(id string) []string
	want   func(id string) string
}{
	"second answer in the same record":  {func(id string) []string { return []string{sized(id) + foreign(id)} }, own},
	"second answer in the same segment": {func(id string) []string { return []string{sized(id), foreign(id)} }, own},
	"behind a large answer": {func(id string) []string {
		return []string{sized(large(id)), foreign(id)}
	}, large},
	"behind 4 KiB of answer": {func(id string) []string {
		return []string{sized(fill(id, 4<<10-len(sized(fill(id, 4000)))+4000)), foreign(id)}
	}, func(id string) string { return fill(id, 4<<10-len(sized(fill(id, 4000)))+4000) }},
	"behind an empty answer": {func(id string) []string { return []string{sized(""), foreign(id)} }, empty},
	"behind 204":             {func(id string) []string { return []string{"HTTP/1.1 204 No Content\r\n\r\n", foreign(id)} }, empty},
	"204 with a body": {func(id string) []string {
		return []string{"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", foreign(id)}
	}, empty},
	"304 with a body": {func(id string) []string {
		return []string{"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", foreign(id)}
	}, empty},
	"behind chunks": {func(id string) []string {
		return []string{head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(id) + "0\r\n\r\n", foreign(id)}
	}, own},
	"behind a trailer": {func(id string) []string {
		return []string{head + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n" + chunk(id) + "0\r\nX: y\r\n\r\n" + foreign(id)}
	}, own},
	"a length that is too short": {func(id string) []string {
		return []string{head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(id)) + id + " and more that was not announced"}
	}, own},
	"half a head": {func(id string) []string { return []string{sized(id) + "HTTP/1.1 299 Half\r\nX-Half: "} }, own},
	"one byte":    {func(id string) []string { return []string{sized(id), "\n"} }, own},
	"interim":     {func(id string) []string { return []string{sized(id), "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"} }, own},
	"many more":   {func(id string) []string { return []string{sized(id), strings.Repeat(foreign(id), 50)} }, own},
}

func own(id string) string         { return id }
func empty(string) string          { return "" }
func large(id string) string       { return fill(id, 9<<10) }
func chunk(s string) string        { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
func fill(id string, n int) string { return id + strings.Repeat(".", max(0, n-len(id))) }

// No caller gets what a server sent after another caller's response: with one caller after the other, and with many at
// once.
func TestBytesBehindAnAnswer(t *testing.T) {
	serving, trusting := certificates(t)
	for scheme, secure := range map[string]*tls.Config{"plain": nil, "TLS": serving} {
		c := newPool(t, trusting)
		for name, tt := range extras {
			t.Run(scheme+"/"+name, func(t *testing.T) {
				s := listen(t, secure, func(p *peer) {
					for {
						id, err := p.request()
						if err != nil || p.together(tt.pieces(id)...) != nil {
							return
						}
					}
				})
				var wrong, failed atomic.Int64
				call := func(id string) {
					status, text, err := ask(t.Context(), c, s.url, id)
					switch {
					case err != nil:
						if failed.Add(1) == 1 {
							t.Logf("%s failed: %v", id, err)
						}
					case status == 200 && text != tt.want(id) || status == 299:
						if wrong.Add(1) == 1 {
							t.Logf("%s was told %d %.60q", id, status, text)
						}
					}
				}
				for i := range sequential {
					call(fmt.Sprintf("<one %d>", i))
				}
				if n := wrong.Load(); n > 0 {
					t.Errorf("%d of %d callers in turn got another's answer", n, sequential)
				}
				if n := failed.Load(); n > 0 {
					t.Errorf("%d of %d calls in turn failed", n, sequential)
				}
				wrong.Store(0)
				failed.Store(0)
				var all sync.WaitGroup
				for i := range callers {
					all.Go(func() {
						for n := range calls {
							call(fmt.Sprintf("<many %d %d>", i, n))
						}
					})
				}
				all.Wait()
				if n := wrong.Load(); n > 0 {
					t.Errorf("%d of %d callers at once got another's answer", n, callers*calls)
				}
				if n := failed.Load(); n > 0 {
					t.Errorf("%d of %d calls at once failed", n, callers*calls)
				}
			})
		}
	}
}

const (
	sequential = 20
	callers    = 24
	calls      = 5
)

// What a server sends while a connection is idle ends the connection. The next caller gets its own response.
func TestBytesWhileIdle(t *testing.T) {
	serving, trusting := certificates(t)
	for scheme, secure := range map[string]*tls.Config{"plain": nil, "TLS": serving} {
		c := newPool(t, trusting)
		for name, more := range map[string]string{
			"answer": foreign("idle"), "one byte": "\n", "large": sized(large("foreign")), "408": "HTTP/1.1 408 Request Timeout\r\n\r\n",
		} {
			t.Run(scheme+"/"+name, func(t *testing.T) {
				said := make(chan struct{})
				s := listen(t, secure, func(p *peer) {
					for {
						id, err := p.request()
						if err != nil {
							return
						}
						_, _ = io.WriteString(p, sized(id))
						<-said // The caller has its response.
						_, _ = io.WriteString(p, more)
						said <- struct{}{}
					}
				})
				for i := range 20 {
					id := fmt.Sprintf("<%d>", i)
					status, text, err := ask(t.Context(), c, s.url, id)
					if err != nil || status != 200 || text != id {
						t.Fatalf("%s was told %d %.60q, %v", id, status, text, err)
					}
					said <- struct{}{}
					<-said
				}
			})
		}
	}
}

// If a server refuses a large request before it has read it, the refusal and its Retry-After are returned at once.
func TestEarlyRefusal(t *testing.T) {
	serving, trusting := certificates(t)
	for scheme, secure := range map[string]*tls.Config{"plain": nil, "TLS": serving} {
		c := newPool(t, trusting)
		t.Run(scheme, func(t *testing.T) {
			received := make(chan struct{})
			s := listen(t, secure, func(p *peer) {
				if _, err := p.from.ReadString('\n'); err != nil {
					return
				}
				_, _ = io.WriteString(p, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nslow")
				<-received // The server reads no more.
			})
			defer close(received)
			ctx, cancel := context.WithTimeoutCause(t.Context(), patience/4, errors.New("the refusal was not heard"))
			defer cancel()
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(strings.Repeat("x", 7<<20)))
			response, err := c.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "7" {
				t.Errorf("answer %d, Retry-After %q", response.StatusCode, response.Header.Get("Retry-After"))
			}
			if err != nil || string(text) != "slow" {
				t.Errorf("body %q, %v", text, err)
			}
		})
	}
}

// A response that is cut off, never ends or changes the protocol fails its own call. The next call gets its own
// response over another connection.
func TestBrokenAnswers(t *testing.T) {
	serving, trusting := certificates(t)
	for scheme, secure := range map[string]*tls.Config{"plain": nil, "TLS": serving} {
		for name, words := range map[string]func(yield func(string) bool){
			"cut in the body":      once(head + "Content-Length: 90\r\n\r\nfirst"),
			"cut in a chunk":       once(head + "Transfer-Encoding: chunked\r\n\r\nff\r\nfirst"),
			"cut before the end":   once(head + "Transfer-Encoding: chunked\r\n\r\n" + chunk("first")),
			"cut in the head":      once(head + "Content-Le"),
			"two lengths":          once(head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nfirst!"),
			"negative length":      once(head + "Content-Length: -5\r\n\r\nfirst"),
			"no HTTP":              once("SSH-2.0-server\r\n"),
			"another protocol":     once("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
			"1xx without end":      again("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"),
			"a head without end":   again(head + "X-Endless: " + strings.Repeat("y", 1000) + "\r\n"),
			"a line without end":   again(strings.Repeat("H", 1000)),
			"a chunk without size": once(head + "Transfer-Encoding: chunked\r\n\r\nzz\r\nfirst"),
		} {
			t.Run(scheme+"/"+name, func(t *testing.T) {
				var asked atomic.Int64
				s := listen(t, secure, func(p *peer) {
					id, err := p.request()
					if err != nil {
						return
					}
					if asked.Add(1) > 1 {
						_, _ = io.WriteString(p, sized(id))
						return
					}
					for piece := range words {
						if _, err := io.WriteString(p, piece); err != nil {
							return
						}
					}
				})
				c := newPool(t, trusting)
				if status, text, err := ask(t.Context(), c, s.url, "first"); err == nil {
					t.Errorf("the broken answer was taken for %d %.60q", status, text)
				}
				if status, text, err := ask(t.Context(), c, s.url, "second"); err != nil || status != 200 || text != "second" {
					t.Errorf("the next caller was told %d %.60q, %v", status, text, err)
				}
			})
		}
	}
}

func once(words string) func(yield func(string) bool) {
	return func(yield func(string) bool) { yield(words) }
}

func again(words string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for yield(words) {
		}
	}
}

// A record of which TLS has read only a part counts as unread too.
func TestPartOfARecord(t *testing.T) {
	serving, trusting := certificates(t)
	s := listen(t, serving, func(p *peer) {
		for {
			id, err := p.request()
			if err != nil {
				return
			}
			// The response, and the first half of a record with another one.
			p.out.hold()
			_, _ = io.WriteString(p.Conn, sized(id))
			whole := p.out.held.Len()
			_, _ = io.WriteString(p.Conn, foreign(id))
			rest := p.out.held.Bytes()[whole+(p.out.held.Len()-whole)/2:]
			p.out.held.Truncate(p.out.held.Len() - len(rest))
			rest = append([]byte(nil), rest...)
			_ = p.out.release()
			if _, err := p.from.Peek(1); err != nil { // closed, or the next request
				return
			}
			_, _ = p.out.Write(rest)
		}
	})
	c := newPool(t, trusting)
	for i := range 10 {
		id := fmt.Sprintf("<%d>", i)
		if status, text, err := ask(t.Context(), c, s.url, id); err != nil || status != 200 || text != id {
			t.Fatalf("%s was told %d %.60q, %v", id, status, text, err)
		}
	}
	if n := s.connections.Load(); n != 10 {
		t.Errorf("%d connections for 10 calls: one with half a record was used again", n)
	}
}

// After a server has sent something behind a response, each request gets a new connection, so that later bytes reach no
// other request.
func TestConnectionsToAServerThatExceedsServeOneRequest(t *testing.T) {
	var connections atomic.Int64
	s := listen(t, nil, func(p *peer) {
		first := connections.Add(1) == 1
		for {
			id, err := p.request()
			if err != nil {
				return
			}
			pieces := []string{sized(id)}
			if first {
				pieces = append(pieces, foreign(id))
			}
			if p.together(pieces...) != nil {
				return
			}
		}
	})
	pool := newPool(t, nil)
	const calls = 5
	for i := range calls {
		id := fmt.Sprintf("call %d", i)
		_, text, err := ask(t.Context(), pool, s.url, id)
		if err != nil {
			t.Fatal(err)
		}
		if text != id {
			t.Errorf("%s was answered %q", id, text)
		}
	}
	if n := connections.Load(); n != calls {
		t.Errorf("%d connections for %d requests", n, calls)
	}
}
