package rpc_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/telemetry"
	"switchyard.dev/services/platform/testkit"
)

// A message of a connection that was taken over is a call: its caller is authenticated, its body checked, and it has a
// log line of its own.
func TestCall(t *testing.T) {
	b := setup(t, echo, func(o *rpc.Options) {
		o.RefuseBody = func(_ string, body []byte) error {
			if strings.Contains(string(body), "secret") {
				return apierr.Invalid("body", "holds a secret")
			}
			return nil
		}
	})
	failed := errors.New("failed")
	for _, tt := range []struct {
		name, method, token, body string
		handle                    func(r *http.Request) error
		want                      string // in the error, as its caller sees it
		line                      string // in the log
	}{
		{"served", "Watch", "svc", `{"a":1}`, nil, "", `"status":200`},
		{"an unknown token", "Watch", "other", "{}", nil, "token", "refused"},
		{"a role that may not", "Admin", "svc", "{}", nil, "role operator", "refused"},
		{"an unknown method", "Nothing", "svc", "{}", nil, "unknown method", "refused"},
		{"too deep", "Watch", "svc", nested(5000), nil, "body: ", "refused"},
		{"not UTF-8", "Watch", "svc", "\xff", nil, "UTF-8", "refused"},
		{"a secret", "Watch", "svc", `"secret"`, nil, "holds a secret", "refused"},
		{"a failure", "Watch", "svc", "{}", func(*http.Request) error { return failed }, "internal error", `"status":500`},
		{"a panic", "Watch", "svc", "{}", func(*http.Request) error { panic("bug") }, "internal error", `"status":500`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/watch", nil)
		r.Header.Set("Authorization", "Bearer "+tt.token)
		before := len(b.log.String())
		ran := false
		err := b.server.Call(httptest.NewRecorder(), r, "/rpctest.EchoService/"+tt.method, []byte(tt.body), func(_ http.ResponseWriter, r *http.Request) error {
			ran = true
			text, _ := io.ReadAll(r.Body)
			if string(text) != tt.body || string(rpc.Body(r)) != tt.body || caller.From(r.Context()).Name != "edge" {
				t.Errorf("%s: called with %q by %+v", tt.name, text, caller.From(r.Context()))
			}
			if tt.handle != nil {
				return tt.handle(r)
			}
			return nil
		})
		line := b.log.String()[before:]
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(apierr.From(err).Text, tt.want) || ran == strings.Contains(tt.line, "refused") {
			t.Errorf("%s: %v, handled %t, want %q", tt.name, err, ran, tt.want)
		}
		if !strings.Contains(line, tt.line) {
			t.Errorf("%s: logged %s, want %s", tt.name, line, tt.line)
		}
	}
}

// The drain waits for handlers that have taken over their connection, until the grace ends and their contexts with it.
func TestDrainWaitsForTakenConnections(t *testing.T) {
	t.Parallel()
	runner := lifecycle.New(slog.New(slog.DiscardHandler), lifecycle.Options{Grace: time.Second})
	addr, ended := testkit.FreeAddress(t), make(chan struct{})
	began := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		close(began)
		<-r.Context().Done()
		_, _ = io.WriteString(conn, "bye")
		_ = conn.Close()
		close(ended)
	})
	if err := rpc.ServeHTTP(t.Context(), runner, "http", addr, h, nil); err != nil {
		t.Fatal(err)
	}
	closed := false
	runner.OnClose("after the drain", func(context.Context) error {
		select {
		case <-ended:
			closed = true
		default:
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- runner.Run(ctx) }()
	var conn net.Conn
	testkit.Wait(t, "the listener", func() (err error) {
		conn, err = new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		return err
	})
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	stop()
	if text, err := io.ReadAll(conn); string(text) != "bye" {
		t.Errorf("%q, %v", text, err)
	}
	if err := <-stopped; err == nil || !closed {
		t.Errorf("stopped with %v, want that the grace was too short; the connection had ended: %t", err, closed)
	}
}

// A request that was accepted earlier runs as a call of its caller, with a log line and its own id.
func TestResume(t *testing.T) {
	b := setup(t, echo)
	ada := caller.Caller{Name: "edge", Organization: "acme", Owner: "ada"}
	for name, c := range map[string]struct {
		handle     func() error
		want, line string
	}{
		"served":    {func() error { return nil }, "", `"status":200`},
		"a failure": {func() error { return errors.New("failed") }, "internal error", `"status":500`},
		"a panic":   {func() error { panic("bug") }, "internal error", `"status":500`},
	} {
		before := len(b.log.String())
		err := b.server.Resume(t.Context(), ada, "req_1", "/rpctest.EchoService/Watch", func(ctx context.Context) error {
			if got, id := caller.From(ctx), telemetry.RequestID(ctx); got != ada || id != "req_1" {
				t.Errorf("%s: called as %q by %+v", name, id, got)
			}
			return c.handle()
		})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(apierr.From(err).Text, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if line := b.log.String()[before:]; !strings.Contains(line, c.line) || !strings.Contains(line, "acme") {
			t.Errorf("%s: logged %s", name, line)
		}
	}
}
