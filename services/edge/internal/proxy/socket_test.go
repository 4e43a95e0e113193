package proxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/socket"
)

// tunnelled is a relay of WebSockets in front of a service that a test plays.
type tunnelled struct {
	url      string
	client   *http.Client
	services chan *websocket.Conn
	sessions chan proxy.Session
	drain    *socket.Drain
	// headers are those of the last upgrade at the service; refuse answers it instead, unless zero.
	mu      sync.Mutex
	headers http.Header
	refuse  int
	admit   func() error
	terms   string
	end     context.CancelCauseFunc
}

func newTunnel(t *testing.T) *tunnelled {
	t.Helper()
	x := &tunnelled{
		services: make(chan *websocket.Conn, 1), sessions: make(chan proxy.Session, 1), drain: socket.NewDrain(),
		client: &http.Client{Transport: &http.Transport{}}, admit: func() error { return nil },
	}
	var handlers sync.WaitGroup
	ended := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.mu.Lock()
		x.headers = r.Header
		x.mu.Unlock()
		if x.refuse != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "7")
			http.Error(w, `{"error":"refused"}`, x.refuse)
			return
		}
		handlers.Add(1)
		defer handlers.Done()
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		conn.SetReadLimit(-1)
		x.services <- conn
		<-ended
		_ = conn.CloseNow()
	}))
	target, err := url.Parse(service.URL + "/v1/responses")
	if err != nil {
		t.Fatal(err)
	}
	relay := proxy.NewSockets(proxy.SocketTransport(nil), secret.New(token), bounds, x.drain)
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		session, err := relay.Connect(w, r, x.call(target))
		if err != nil {
			http.Error(w, err.Error(), apierr.From(err).Kind.HTTPStatus())
			return
		}
		x.sessions <- session
	}))
	x.url = edge.URL
	t.Cleanup(func() {
		close(ended)
		handlers.Wait()
		edge.Close()
		service.Close()
		x.client.CloseIdleConnections()
		goleak.VerifyNone(t, goleak.IgnoreCurrent())
	})
	return x
}

func (x *tunnelled) call(target *url.URL) proxy.Call {
	return proxy.Call{
		Target: target, Timeout: 10 * time.Second, Organization: "org-1", Key: "key_1", Terms: x.terms, Dialect: "openai",
		Follow: func(end context.CancelCauseFunc) func() { x.end = end; return func() {} },
		Admit:  func(context.Context) error { return x.admit() },
		Refusal: func(e *apierr.Error, stream string) []byte {
			return []byte(`{"refused":"` + string(e.Reason) + " " + stream + `"}`)
		},
	}
}

// open opens a connection of a customer, and returns it with that of the service.
func (x *tunnelled) open(t *testing.T) (customer, service *websocket.Conn) {
	t.Helper()
	customer, status, _ := x.dial(t)
	if customer == nil {
		t.Fatalf("refused with %d", status)
	}
	return customer, <-x.services
}

// dial opens a connection of a customer, or returns with what it was refused.
func (x *tunnelled) dial(t *testing.T) (customer *websocket.Conn, status int, header http.Header) {
	t.Helper()
	customer, response, err := websocket.Dial(t.Context(), x.url, &websocket.DialOptions{HTTPClient: x.client, HTTPHeader: http.Header{
		"Authorization": {"Bearer swy_key"}, "X-Organization-Id": {"other"}, "X-Key-Terms": {`{"key":"other"}`}, "Openai-Beta": {"responses_websockets=2026-02-06"},
	}})
	if err != nil {
		defer func() { _ = response.Body.Close() }()
		return nil, response.StatusCode, response.Header
	}
	customer.SetReadLimit(-1)
	t.Cleanup(func() { _ = customer.CloseNow() })
	return customer, response.StatusCode, response.Header
}

func write(t *testing.T, conn *websocket.Conn, text string) {
	t.Helper()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, text, err := conn.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// code returns the code with which a connection ends.
func code(t *testing.T, conn *websocket.Conn) websocket.StatusCode {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

const (
	request   = `{"type":"response.create","input":"x"}`
	completed = `{"type":"response.completed","sequence_number":3,"response":{"id":"resp_1"}}`
)

// Messages pass as they are, also large ones, and each completed response counts once.
func TestTunnel(t *testing.T) {
	x := newTunnel(t)
	customer, service := x.open(t)
	large := `{"type":"response.create","input":"` + strings.Repeat("x", 900<<10) + `"}`
	for _, text := range []string{request, large, `{"type":"response.cancel"}`, "not JSON", ""} {
		write(t, customer, text)
		if got := receive(t, service); got != text {
			t.Fatalf("the service got %d bytes, want %d", len(got), len(text))
		}
	}
	for _, text := range []string{
		`{"type":"response.created","sequence_number":0,"response":{}}`,
		completed,
		`{"type":"response.incomplete","sequence_number":3,"response":{"output":"` + strings.Repeat("x", 3<<20) + `"}}`,
		`{"type":"response.failed","sequence_number":3,"response":{}}`,
		`{"type":"response.completed","sequence_number":1,"generate":false,"response":{}}`,
		`{"type":"error","status":400}`,
	} {
		write(t, service, text)
		if got := receive(t, customer); got != text {
			t.Errorf("the customer got %d bytes, want %d", len(got), len(text))
		}
	}
	_ = customer.Close(websocket.StatusNormalClosure, "bye")
	if got := code(t, service); got != websocket.StatusNormalClosure {
		t.Errorf("the service's connection closed with %d", got)
	}
	if got, want := <-x.sessions, (proxy.Session{Code: 1000, Requests: 4, Counted: 2}); got != want {
		t.Errorf("session %+v, want %+v", got, want)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + token, "X-Organization-Id": "org-1", "X-Key-Id": "key_1", "X-Switchyard-Dialect": "openai",
		"Openai-Beta": "responses_websockets=2026-02-06", "Sec-Websocket-Extensions": "",
		"X-Key-Terms": "",
	} {
		if got := x.headers.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A refused request is answered in band and doesn't reach the service; other messages are not limited.
func TestTunnelRefuses(t *testing.T) {
	x := newTunnel(t)
	customer, service := x.open(t)
	x.admit = func() error { return apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "too many") }
	write(t, customer, `{"type":"response.create","stream_id":"a","input":"`+strings.Repeat("x", 100<<10)+`"}`)
	if got := receive(t, customer); got != `{"refused":"rate_limited a"}` {
		t.Errorf("%s", got)
	}
	write(t, customer, `{"input":[],"type":"response.cancel"}`) // It can't be told from a request at its beginning.
	if got := receive(t, customer); got != `{"refused":"rate_limited "}` {
		t.Errorf("%s", got)
	}
	write(t, customer, `{"type":"response.cancel"}`)
	if got := receive(t, service); got != `{"type":"response.cancel"}` {
		t.Errorf("the service got %s", got)
	}
	x.admit = func() error { return apierr.New(apierr.KindUnauthenticated, "invalid_key", "no such key") }
	write(t, customer, request)
	if got := receive(t, customer); got != `{"refused":"invalid_key "}` {
		t.Errorf("%s", got)
	}
	if a, b := code(t, customer), code(t, service); a != 1008 || b != 1008 {
		t.Errorf("closed with %d and %d, want 1008", a, b)
	}
}

func TestTunnelEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(x *tunnelled, customer, service *websocket.Conn)
		// want are the codes that the customer and the service get; 0 for the side that ends it.
		customer, service websocket.StatusCode
	}{
		{"the key is revoked", func(x *tunnelled, _, _ *websocket.Conn) {
			x.end(apierr.New(apierr.KindUnauthenticated, "invalid_key", ""))
		}, 1008, 1008},
		{"the service closes", func(_ *tunnelled, _, service *websocket.Conn) {
			_ = service.Close(websocket.StatusPolicyViolation, "organization_suspended")
		}, 1008, 0},
		{"the service breaks", func(_ *tunnelled, _, service *websocket.Conn) { _ = service.CloseNow() }, 1001, 0},
		{"the customer breaks", func(_ *tunnelled, customer, _ *websocket.Conn) { _ = customer.CloseNow() }, 0, 1001},
		{"the service drains", func(x *tunnelled, _, _ *websocket.Conn) { _ = x.drain.Begin(context.Background()) }, 1012, 1012},
		{"binary", func(_ *tunnelled, customer, _ *websocket.Conn) {
			_ = customer.Write(context.Background(), websocket.MessageBinary, []byte("x"))
		}, 1003, 1003},
		{"too large", func(_ *tunnelled, customer, _ *websocket.Conn) {
			_ = customer.Write(context.Background(), websocket.MessageText, make([]byte, bounds.Body+1))
		}, 1009, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newTunnel(t)
			customer, service := x.open(t)
			write(t, customer, `{"type":"response.cancel"}`) // A customer that breaks during the handshake ends the request itself.
			receive(t, service)
			codes := make(chan websocket.StatusCode, 2)
			go func() { codes <- code(t, service) }()
			if tt.customer != 0 {
				go tt.end(x, customer, service)
				if got := code(t, customer); got != tt.customer {
					t.Errorf("the customer's connection closed with %d, want %d", got, tt.customer)
				}
			} else {
				tt.end(x, customer, service)
			}
			if got := <-codes; tt.service != 0 && got != tt.service {
				t.Errorf("the service's connection closed with %d, want %d", got, tt.service)
			}
			<-x.sessions
		})
	}
}

// The drain waits for the responses in flight.
func TestTunnelDrains(t *testing.T) {
	x := newTunnel(t)
	customer, service := x.open(t)
	write(t, customer, request)
	receive(t, service)
	_ = x.drain.Begin(t.Context())
	write(t, customer, request)
	if got := receive(t, customer); got != `{"refused":"unavailable "}` {
		t.Errorf("a new request: %s", got)
	}
	write(t, service, completed)
	if got := receive(t, customer); got != completed {
		t.Errorf("%s", got)
	}
	if got := code(t, customer); got != 1012 {
		t.Errorf("closed with %d, want 1012", got)
	}
	if _, status, _ := x.dial(t); status != http.StatusServiceUnavailable {
		t.Errorf("a new connection: %d", status)
	}
}

// A service that refuses the upgrade refuses it to the customer.
func TestTunnelRefused(t *testing.T) {
	for refuse, want := range map[int]int{426: 426, 403: 403, 429: 429, 401: 502, 503: 503} {
		x := newTunnel(t)
		x.refuse = refuse
		if _, status, header := x.dial(t); status != want || want == refuse && header.Get("Retry-After") != "7" {
			t.Errorf("%d: %d %v, want %d", refuse, status, header, want)
		}
	}
}
