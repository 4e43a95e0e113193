package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestFailures(t *testing.T) {
	const closed = "http://127.0.0.1:1" // a port of a closed server could soon be another's
	hangs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	breaks := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	distrusts := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "token "+token, http.StatusUnauthorized) })
	for name, tt := range map[string]struct {
		edge   *edge
		status int
		reason string
	}{
		"nothing listens":    {relayTo(t, closed), 503, "upstream_unavailable"},
		"breaks off":         {serve(t, breaks), 502, "upstream_unavailable"},
		"refuses our token":  {serve(t, distrusts), 502, "upstream_unavailable"},
		"too slow to answer": {serve(t, hangs, func(c *proxy.Call) { c.Timeout = time.Millisecond }), 504, "upstream_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := tt.edge.post(t, strings.NewReader("{}"), nil)
			if got := text(t, answer.Body); answer.StatusCode != tt.status || got != tt.reason || tt.edge.counted.Load() != 0 {
				t.Errorf("answer %d %s, counted %d; want %d %s", answer.StatusCode, got, tt.edge.counted.Load(), tt.status, tt.reason)
			}
			err := <-tt.edge.errs
			testkit.NoLeak(t, token, err.Error())
			class := apierr.From(err).ErrorClass()
			if !class.Retryable() {
				t.Errorf("class %s is not retryable", class)
			}
		})
	}
}

// The transport would send a call with an Idempotency-Key again by itself.
func TestCallsOnlyOnce(t *testing.T) {
	var calls atomic.Int64
	e := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
	}))
	header := http.Header{"Idempotency-Key": {"i"}}
	_ = text(t, e.post(t, strings.NewReader("{}"), header).Body) // the second goes over the same connection
	if answer := e.post(t, strings.NewReader("{}"), header); answer.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d, want 502", answer.StatusCode)
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("the service was called %d times, want 2", n)
	}
}

// A call that the edge ends itself says why, or looks cut where it had begun; the
// service is let go at once.
func TestEdgeEndsACall(t *testing.T) {
	why := apierr.New(apierr.KindUnauthenticated, "invalid_key", "the key is gone")
	for name, begun := range map[string]bool{"before the head": false, "in a stream": true} {
		t.Run(name, func(t *testing.T) {
			var end context.CancelCauseFunc
			following := true
			ended := make(chan struct{})
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if begun { // the customer has it before the end comes
					_, _ = io.WriteString(w, "data: 1\n\n")
					_ = http.NewResponseController(w).Flush()
				} else {
					end(why)
				}
				<-r.Context().Done()
				close(ended)
			}))
			defer service.Close()
			target, err := url.Parse(service.URL)
			if err != nil {
				t.Fatal(err)
			}
			transport := proxy.Transport(nil)
			defer transport.CloseIdleConnections()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
			customer := reported{httptest.NewRecorder(), func() { end(why) }}
			err = proxy.New(transport, secret.New(token), bounds).Do(customer, r, proxy.Call{
				Target: target, Timeout: time.Minute,
				Follow: func(f context.CancelCauseFunc) func() { end = f; return func() { following = false } },
			})
			<-ended
			if following {
				t.Error("Do has returned without calling done")
			}
			if !errors.Is(err, why) {
				t.Errorf("%v, want one that wraps %v", err, why)
			}
			if cut := errors.Is(err, proxy.ErrCut); cut != begun {
				t.Errorf("cut %t, want %t: %v", cut, begun, err)
			}
			if e := apierr.From(err); !begun && e.Kind != why.Kind {
				t.Errorf("kind %v, want %v", e.Kind, why.Kind)
			}
		})
	}
}

// told does something when the first piece of an answer arrives.
type reported struct {
	*httptest.ResponseRecorder

	then func()
}

func (w reported) Write(p []byte) (int, error) {
	w.then()
	return w.ResponseRecorder.Write(p)
}

func TestCustomerLeaves(t *testing.T) {
	started, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	for name, head := range map[string]bool{"before the head": false, "in a stream": true} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if head {
					_, _ = io.WriteString(w, "data: 1\n\n")
					_ = http.NewResponseController(w).Flush()
				}
				started <- struct{}{}
				<-r.Context().Done()
				ended <- struct{}{}
			}))
			ctx, leave := context.WithCancel(t.Context())
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, strings.NewReader("{}"))
			go func() {
				<-started
				leave()
			}()
			if answer, err := e.client.Do(r); err == nil {
				_, _ = io.ReadAll(answer.Body)
				_ = answer.Body.Close()
			}
			<-ended
			if err := <-e.errs; err == nil {
				t.Error("nobody noticed")
			}
		})
	}
}

// An answer that ends early must look like it to the customer.
func TestServiceDiesInAnAnswer(t *testing.T) {
	for name, length := range map[string]string{"stream": "", "known length": "100"} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				_, _ = io.WriteString(w, "data: half\n\n")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}))
			answer, err := e.client.Post(e.URL, "application/json", strings.NewReader("{}"))
			if err == nil {
				_, err = io.ReadAll(answer.Body)
				_ = answer.Body.Close()
			}
			if err == nil {
				t.Error("half an answer looks like a whole one")
			}
			if err := <-e.errs; !errors.Is(err, proxy.ErrCut) {
				t.Errorf("error = %v, want ErrCut", err)
			}
		})
	}
}

// A customer who announces a body and sends none holds no memory for it.
func TestBodyThatNeverComes(t *testing.T) {
	e := serve(t, http.NotFoundHandler())
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
	_ = conn.Close()
	if err := <-e.errs; apierr.From(err).Kind != apierr.KindInvalid {
		t.Errorf("error = %v, want an invalid body", err)
	}
	t.Cleanup(func() { e.client.CloseIdleConnections() })
}

// A service that refuses a large body before it has read it is heard, with what
// it says about trying again.
func TestServiceRefusesEarly(t *testing.T) {
	received := make(chan struct{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = conn.Read(make([]byte, 100))
		_, _ = io.WriteString(conn, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nslow")
		<-received // It reads no more.
	}()
	defer close(received)
	e := relayWithin(t, proxy.Bounds{Body: 8 << 20, Memory: 8 << 20, Share: 8 << 20, BodyTime: time.Minute, WriteTime: time.Minute},
		"http://"+listener.Addr().String(), func(c *proxy.Call) { c.Timeout = 10 * time.Second })
	answer := e.post(t, strings.NewReader(strings.Repeat("x", 7<<20)), nil)
	if got := text(t, answer.Body); answer.StatusCode != http.StatusTooManyRequests || got != "slow" {
		t.Errorf("answer %d %q, want 429 slow", answer.StatusCode, got)
	}
	if got := answer.Header.Get("Retry-After"); got != "7" {
		t.Errorf("Retry-After %q, want 7", got)
	}
}
