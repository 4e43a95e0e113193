package socket_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var roomy = socket.Bounds{Message: 1 << 10, MessageTime: 10 * time.Second, WriteTime: 10 * time.Second, Ping: 10 * time.Second}

// served is a connection between a client and a service that echoes.
type served struct {
	*websocket.Conn

	service *socket.Conn
	// cancel ends the context of the service's side; ending is what Serve returned.
	cancel context.CancelCauseFunc
	ending chan *socket.ClosedError
}

// open connects a client to a service. receive is nil for an echo.
func open(t *testing.T, bounds socket.Bounds, receive func(c *socket.Conn, message io.Reader) error) *served {
	t.Helper()
	if receive == nil {
		receive = func(c *socket.Conn, message io.Reader) error { return c.Pass([]byte("echo "), message) }
	}
	s := &served{ending: make(chan *socket.ClosedError, 1)}
	accepted := make(chan struct{})
	var handlers sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		c, err := socket.Accept(w, r, bounds)
		if err != nil {
			t.Error(err)
			return
		}
		s.service, s.cancel = c, cancel
		close(accepted)
		s.ending <- c.Serve(ctx, func(message io.Reader) error { return receive(c, message) })
	}))
	client := &http.Client{Transport: &http.Transport{}}
	conn, _, err := websocket.Dial(t.Context(), server.URL, &websocket.DialOptions{HTTPClient: client}) //nolint:bodyclose // The library's: there is no need to.
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	s.Conn = conn
	<-accepted
	t.Cleanup(func() {
		_ = conn.CloseNow()
		handlers.Wait()
		server.Close()
		client.CloseIdleConnections()
	})
	return s
}

func (s *served) send(t *testing.T, text string) {
	t.Helper()
	if err := s.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func (s *served) next(t *testing.T) string {
	t.Helper()
	_, text, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// code reads until the connection ends, and returns its code.
func (s *served) code(t *testing.T) websocket.StatusCode {
	t.Helper()
	for {
		if _, _, err := s.Read(t.Context()); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

func TestMessages(t *testing.T) {
	s := open(t, socket.Bounds{Message: 1 << 20, MessageTime: time.Minute, WriteTime: time.Minute, Ping: time.Minute}, nil)
	for _, text := range []string{"", "hello", strings.Repeat("x", 1<<20-5)} {
		s.send(t, text)
		if got := s.next(t); got != "echo "+text {
			t.Errorf("%d bytes came back, want %d", len(got), len(text)+5)
		}
	}
	if err := s.service.Send([]byte("by itself")); err != nil || s.next(t) != "by itself" {
		t.Errorf("sent: %v", err)
	}
	_ = s.Close(websocket.StatusNormalClosure, "bye")
	if err := s.service.Panic(); err != nil {
		t.Errorf("a panic: %v", err)
	}
	if got := <-s.ending; got.Code != websocket.StatusNormalClosure || got.Reason != "" { // A client's text is not passed on.
		t.Errorf("ended with %v", got)
	}
	if err := s.service.Send([]byte("late")); err == nil {
		t.Error("a message was sent on a connection that has ended")
	}
}

// A message that its receiver doesn't read is dropped, and the next one is read.
func TestUnreadMessage(t *testing.T) {
	first := true
	s := open(t, roomy, func(c *socket.Conn, message io.Reader) error {
		if first {
			first = false
			return nil
		}
		return c.Pass(nil, message)
	})
	s.send(t, strings.Repeat("x", 1000))
	s.send(t, "second")
	if got := s.next(t); got != "second" {
		t.Errorf("%q came back", got)
	}
}

// Each reason for an end has its code.
func TestEndings(t *testing.T) {
	drain := socket.NewDrain()
	short := func(change func(*socket.Bounds)) socket.Bounds {
		b := roomy
		change(&b)
		return b
	}
	for _, tt := range []struct {
		name   string
		bounds socket.Bounds
		end    func(s *served)
		want   websocket.StatusCode
	}{
		{"binary", roomy, func(s *served) { _ = s.Write(t.Context(), websocket.MessageBinary, []byte("x")) }, 1003},
		{"too large", roomy, func(s *served) { s.send(t, strings.Repeat("x", 1<<10+1)) }, 1009},
		{"refused", roomy, func(s *served) { s.cancel(apierr.New(apierr.KindForbidden, "organization_suspended", "")) }, 1008},
		{"unknown", roomy, func(s *served) { s.cancel(apierr.New(apierr.KindUnauthenticated, "invalid_key", "")) }, 1008},
		{"a failure", roomy, func(s *served) { s.cancel(apierr.Internal(errors.New("x"))) }, 1011},
		{"the grace ended", roomy, func(s *served) { s.cancel(errors.New("stopping")) }, 1012},
		{"the other side of a relay", roomy, func(s *served) { s.cancel(&socket.ClosedError{Code: 4000, Reason: "own"}) }, 4000},
		{"old", short(func(b *socket.Bounds) { b.Life = time.Millisecond }), func(*served) {}, 1001},
		{"unused", short(func(b *socket.Bounds) { b.Idle = time.Millisecond }), func(*served) {}, 1001},
		{"a drain", short(func(b *socket.Bounds) { b.Drain = drain }), func(*served) { _ = drain.Begin(t.Context()) }, 1012},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, tt.bounds, nil)
			go tt.end(s)
			if got := s.code(t); got != tt.want {
				t.Errorf("closed with %d, want %d", got, tt.want)
			}
			if got := <-s.ending; got.Code != tt.want {
				t.Errorf("ended with %v, want %d", got, tt.want)
			}
		})
	}
}

// Peers that stall are cut: one that leaves, sends half a message, reads nothing, or answers no ping.
func TestStalls(t *testing.T) {
	const soon = 20 * time.Millisecond
	for name, tt := range map[string]struct {
		change func(*socket.Bounds)
		stall  func(t *testing.T, s *served)
	}{
		"leaves": {func(*socket.Bounds) {}, func(_ *testing.T, s *served) { _ = s.CloseNow() }},
		"sends half a message": {func(b *socket.Bounds) { b.MessageTime, b.Message = soon, 1<<20 }, func(t *testing.T, s *served) {
			t.Helper()
			w, err := s.Writer(t.Context(), websocket.MessageText)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(make([]byte, 64<<10)) // More than the client's buffer.
		}},
		"reads nothing": {func(b *socket.Bounds) { b.WriteTime = soon }, func(t *testing.T, s *served) {
			t.Helper()
			for text := make([]byte, 1<<20); s.service.Send(text) == nil; {
				continue
			}
		}},
		"answers no ping": {func(b *socket.Bounds) { b.Ping = soon }, func(*testing.T, *served) {}},
	} {
		t.Run(name, func(t *testing.T) {
			bounds := roomy
			tt.change(&bounds)
			s := open(t, bounds, nil)
			tt.stall(t, s)
			if got := <-s.ending; got != socket.ErrLost {
				t.Errorf("ended with %v, want Lost", got)
			}
		})
	}
}

// A connection that is to end lets the requests in flight finish, takes no other, and says so at last.
func TestLeaves(t *testing.T) {
	drain := socket.NewDrain()
	bounds := roomy
	bounds.Drain, bounds.Idle = drain, time.Millisecond
	bounds.Last = func(e *socket.ClosedError) []byte { return []byte(e.Reason) }
	s := open(t, bounds, nil)
	for s.service.Begin() != nil { // It was unused for a millisecond before.
		s = open(t, bounds, nil)
	}
	_ = drain.Begin(t.Context())
	if !drain.Begun() {
		t.Error("the drain has not begun")
	}
	if err := s.service.Begin(); !errors.Is(err, socket.ErrDrained) {
		t.Errorf("a request began after the drain: %v", err)
	}
	s.service.End()
	s.service.End() // Nothing is in flight.
	if got := s.next(t); got != socket.ErrDrained.Reason {
		t.Errorf("at last %q", got)
	}
	if got := s.code(t); got != 1012 {
		t.Errorf("closed with %d", got)
	}
}

// A panic ends the connection, whether in its reader or beside it.
func TestPanics(t *testing.T) {
	for name, receive := range map[string]func(c *socket.Conn, message io.Reader) error{
		"in receive": func(*socket.Conn, io.Reader) error { panic("bug") },
		"beside it": func(c *socket.Conn, _ io.Reader) error {
			c.Go(func(context.Context) { panic("bug") })
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, roomy, receive)
			s.send(t, "x")
			_ = s.code(t)
			if <-s.ending; s.service.Panic() == nil {
				t.Error("the panic is not known")
			}
		})
	}
}

func TestDial(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Refuse") != "" || !socket.Requested(r) {
			http.Error(w, "no", http.StatusTeapot)
			return
		}
		if c, err := socket.Accept(w, r, roomy); err == nil {
			c.Serve(r.Context(), func(message io.Reader) error { return c.Pass(nil, message) })
		}
	}))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	_, err := socket.Dial(t.Context(), client, server.URL, http.Header{"X-Refuse": {"1"}}, roomy)
	if refused, ok := errors.AsType[*socket.RefusedError](err); !ok || refused.Status != http.StatusTeapot || string(refused.Body) != "no\n" || refused.Header.Get("Content-Type") == "" {
		t.Fatalf("%v", err)
	}
	c, err := socket.Dial(t.Context(), client, server.URL, nil, roomy)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	done := &socket.ClosedError{Code: websocket.StatusNormalClosure}
	if got := c.Serve(t.Context(), func(message io.Reader) error {
		if text, err := io.ReadAll(message); string(text) != "hello" {
			t.Errorf("%q, %v", text, err)
		}
		return done
	}); got != done {
		t.Errorf("ended with %v", got)
	}
}

// A connection that is told to leave ends at once when nothing is in flight, otherwise with the last request.
func TestLeave(t *testing.T) {
	for name, requests := range map[string]int{"idle": 0, "in flight": 2} {
		t.Run(name, func(t *testing.T) {
			s := open(t, roomy, nil)
			for range requests {
				if err := s.service.Begin(); err != nil {
					t.Fatal(err)
				}
			}
			s.service.Leave(socket.ErrStale)
			if err := s.service.Begin(); !errors.Is(err, socket.ErrStale) {
				t.Errorf("a request began: %v", err)
			}
			for range requests {
				s.service.End()
			}
			if got := s.code(t); got != 1012 {
				t.Errorf("closed with %d, want 1012", got)
			}
		})
	}
}
