package rpc_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/dynamicpb"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/testkit"
)

// oneConn is a listener that accepts one connection inside a synctest bubble.
type oneConn chan net.Conn

func (l oneConn) Accept() (net.Conn, error) {
	conn, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l oneConn) Close() error { return nil }

func (l oneConn) Addr() net.Addr { return &net.UnixAddr{} }

// A sender that is refused before its body is read, and never sends it, doesn't keep its connection.
func TestUnreadBodyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
		server := &http.Server{Handler: rpc.BoundBodyForTest(refuse), ReadHeaderTimeout: time.Second}
		listener := make(oneConn, 1)
		client, conn := net.Pipe()
		listener <- conn
		go func() { _ = server.Serve(listener) }()

		start := time.Now()
		if _, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_ = client.SetReadDeadline(start.Add(time.Hour))
		status, err := bufio.NewReader(client).ReadString('\n')
		if err != nil || !strings.Contains(status, "401") || time.Since(start) > time.Minute {
			t.Errorf("after %v: %q, %v", time.Since(start), status, err)
		}
		_ = client.Close()
		close(listener)
		_ = server.Close()
	})
}

// gRPC health follows readiness, and a request that keeps the HTTP face busy doesn't keep the gRPC face open.
func TestFacesDrainTogether(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := setup(t, func(_ context.Context, in *dynamicpb.Message) (*dynamicpb.Message, error) {
		close(started)
		<-release
		return in, nil
	})
	var healthy atomic.Bool
	runner := lifecycle.New(slog.New(slog.DiscardHandler), lifecycle.Options{Grace: 10 * time.Second})
	runner.Check("store", func(context.Context) error {
		if healthy.Load() {
			return nil
		}
		return errors.New("away")
	})
	httpAddr, grpcAddr := testkit.FreeAddress(t), testkit.FreeAddress(t)
	if err := b.server.Serve(t.Context(), runner, httpAddr, grpcAddr); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- runner.Run(ctx) }()

	conn, err := grpc.NewClient(grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	health := func() string { // "" when the face is closed
		answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			return ""
		}
		return answer.GetStatus().String()
	}
	until := func(want string) { // bounded by the test's timeout
		for health() != want {
			time.Sleep(time.Millisecond)
		}
	}
	until("NOT_SERVING")
	healthy.Store(true)
	until("SERVING")

	busy := make(chan error, 1)
	go func() {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+httpAddr+"/v1/watch", nil)
		r.Header.Set("Authorization", "Bearer svc")
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		busy <- err
	}()
	<-started
	stop()
	until("")
	close(release)
	if err := errors.Join(<-busy, <-stopped); err != nil {
		t.Errorf("the request in flight, or the drain: %v", err)
	}
}

// A drain that comes before the faces serve is none that failed.
func TestDrainBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ context.Context, in *dynamicpb.Message) (*dynamicpb.Message, error) { return in, nil })
	runner := lifecycle.New(slog.New(slog.DiscardHandler), lifecycle.Options{Grace: time.Second})
	if err := b.server.Serve(t.Context(), runner, testkit.FreeAddress(t), testkit.FreeAddress(t)); err != nil {
		t.Fatal(err)
	}
	b.server.GRPC().Stop() // as a drain does that comes before the server's goroutine
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := runner.Run(ended); err != nil {
		t.Errorf("the run ended with %v", err)
	}
}

// Requests that outlast the grace are cancelled, also if a handler never uses its connection, and have a moment to
// answer.
func TestDrainEndsRequests(t *testing.T) {
	t.Parallel()
	runner := lifecycle.New(slog.New(slog.DiscardHandler), lifecycle.Options{Grace: 50 * time.Millisecond})
	began, ended := make(chan struct{}), make(chan error, 1)
	addr := testkit.FreeAddress(t)
	err := rpc.ServeHTTP(t.Context(), runner, "test", addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		w.WriteHeader(http.StatusServiceUnavailable)
		ended <- context.Cause(r.Context())
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- runner.Run(ctx) }()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	for err != nil {
		conn, err = new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	<-began
	stop()
	if err := <-stopped; err == nil || !strings.Contains(err.Error(), "requests cancelled") {
		t.Errorf("the drain said %v, want that requests were cut", err)
	}
	select {
	case cause := <-ended:
		if cause == nil || !strings.Contains(cause.Error(), "the service is stopping") {
			t.Errorf("the request ended by %v", cause)
		}
	default:
		t.Error("the handler is still at work")
	}
	if answer, _ := io.ReadAll(conn); !strings.Contains(string(answer), " 503 ") {
		t.Errorf("the caller got %q, want the handler's last words", answer)
	}
}

// A stopping service ends the connections that its callers would use again before it closes the listener.
func TestDrainLetsGoOfConnections(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ context.Context, in *dynamicpb.Message) (*dynamicpb.Message, error) { return in, nil })
	runner := lifecycle.New(slog.New(slog.DiscardHandler), lifecycle.Options{DrainDelay: 2 * time.Second, Grace: time.Second})
	httpAddr := testkit.FreeAddress(t)
	if err := rpc.ServeHTTP(t.Context(), runner, "http", httpAddr, b.server.Handler(), nil); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- runner.Run(running) }()
	closes := func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+httpAddr+"/v1/open", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.Close
	}
	if closes() {
		t.Error("a connection was ended while the service runs")
	}
	stop()
	for !runner.Draining() { // bounded by the test's timeout
		runtime.Gosched()
	}
	if !closes() {
		t.Error("a connection was kept while the service was stopping")
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A caller whose response arrived during the drain may send its next request at once, because that response did not say
// that the connection closes; also if no request is in progress any more when the face begins to stop.
func TestDrainAnswersTheNextRequest(t *testing.T) {
	t.Parallel()
	t.Run("in progress", func(t *testing.T) { t.Parallel(); askTwiceDuringDrain(t, false) })
	t.Run("just finished", func(t *testing.T) { t.Parallel(); askTwiceDuringDrain(t, true) })
}

// askTwiceDuringDrain sends a request before the drain and another one when the response to the first has arrived. With
// finished, the face begins to stop only after that response.
func askTwiceDuringDrain(t *testing.T, finished bool) {
	t.Helper()
	started, release, received := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var once sync.Once
	b := setup(t, func(_ context.Context, in *dynamicpb.Message) (*dynamicpb.Message, error) {
		once.Do(func() { close(started); <-release })
		return in, nil
	})
	runner := lifecycle.New(slog.New(slog.DiscardHandler), lifecycle.Options{Grace: 10 * time.Second})
	if finished { // Steps run in order of registration.
		runner.OnDrain("response", func(context.Context) error { <-received; return nil })
	}
	httpAddr := testkit.FreeAddress(t)
	if err := rpc.ServeHTTP(t.Context(), runner, "http", httpAddr, b.server.Handler(), nil); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- runner.Run(running) }()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", httpAddr)
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	ask := func() {
		if _, err := io.WriteString(conn, "POST /v1/open HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	<-started
	stop()
	for !runner.Draining() { // bounded by the test's timeout
		runtime.Gosched()
	}
	close(release)
	for _, ends := range []bool{false, true} {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Close != ends {
			t.Errorf("status %d, the connection ends: %v, want %v", resp.StatusCode, resp.Close, ends)
		}
		if !ends {
			close(received)
			ask()
		}
	}
	if err := errors.Join(conn.Close(), <-stopped); err != nil {
		t.Error(err)
	}
}
