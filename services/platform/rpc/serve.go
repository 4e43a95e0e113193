package rpc

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/lifecycle"
)

// Handler returns the whole HTTP face: first the handlers of HandleOpen, then the contract's paths. Paths are matched
// exactly as received: a path that http.ServeMux would redirect to its clean form is not found. With mutual TLS the
// open handlers (health, metrics, documents) need no certificate, because probes have none; all other paths are refused
// without one.
func (s *Server) Handler() http.Handler {
	return WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verb := r.Method
		if verb == http.MethodHead {
			verb = http.MethodGet
		}
		if h, ok := s.open[endpoint{verb, r.URL.Path}]; ok {
			h.ServeHTTP(w, r)
			return
		}
		s.applyDialect(w, r)
		if !s.certified(r) {
			s.writeError(w, r, apierr.New(apierr.KindUnauthenticated, "client_certificate_required", "a client certificate is required"))
			return
		}
		if h, ok := s.exact[endpoint{r.Method, r.URL.Path}]; ok && r.URL.RawPath == "" {
			h(w, r)
			return
		}
		s.mux.ServeHTTP(w, r)
	}))
}

// mutual reports whether callers must present a certificate.
func (s *Server) mutual() bool {
	return s.options.TLS != nil && s.options.TLS.ClientAuth == tls.RequireAndVerifyClientCert
}

// certified reports whether an HTTP caller has presented the certificate that is required. The handshake can't require
// it, because health probes and metrics scrapers have none.
func (s *Server) certified(r *http.Request) bool {
	return !s.mutual() || r.TLS != nil && len(r.TLS.VerifiedChains) > 0
}

// httpTLS returns the configuration of the HTTP listener. It accepts callers without a certificate, for the open
// handlers (see certified); an invalid certificate ends the handshake.
func (s *Server) httpTLS() *tls.Config {
	if !s.mutual() {
		return s.options.TLS
	}
	return optionalClientCert(s.options.TLS)
}

// applyDialect copies the key from the dialect's own header to Authorization, where all other code reads it, and adds
// the dialect's own request id header to the response.
func (s *Server) applyDialect(w http.ResponseWriter, r *http.Request) {
	d := s.dialect(r)
	if key := r.Header.Get(d.KeyHeader); key != "" && r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if key := TakeQuery(r, d.KeyQuery); key != "" && r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if d.IDHeader != "" {
		w.Header().Set(d.IDHeader, w.Header().Get(caller.HeaderRequest))
	}
}

// TakeQuery removes a query parameter from a request and returns its value; empty without one.
func TakeQuery(r *http.Request, name string) string {
	if name == "" || r.URL.RawQuery == "" {
		return ""
	}
	query := r.URL.Query()
	value := query.Get(name)
	if query.Has(name) {
		query.Del(name)
		r.URL.RawQuery = query.Encode()
		r.RequestURI = r.URL.RequestURI()
	}
	return value
}

func (s *Server) dialect(r *http.Request) Dialect {
	if s.options.Dialect == nil {
		return Dialect{}
	}
	return s.options.Dialect(r)
}

// GRPC returns the gRPC server.
func (s *Server) GRPC() *grpc.Server { return s.grpc }

// WithRequestID gives every request an id, which is the caller's own if that is valid, and every response the same id.
func WithRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := RequestID(r.Header.Get(caller.HeaderRequest))
		r.Header.Set(caller.HeaderRequest, id)
		w.Header().Set(caller.HeaderRequest, id)
		next.ServeHTTP(w, r)
	})
}

// Serve listens on both addresses and registers both faces with the runner. gRPC health follows readiness, and both
// faces drain together.
func (s *Server) Serve(ctx context.Context, runner *lifecycle.Runner, httpAddr, grpcAddr string) error {
	if err := s.Check(); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", grpcAddr)
	if err != nil {
		return fmt.Errorf("gRPC face: %w", err)
	}
	face, err := listenHTTP(ctx, runner, "http", httpAddr, s.Handler(), s.httpTLS())
	if err != nil {
		_ = listener.Close()
		return err
	}
	if tokens := s.options.Tokens; tokens != nil {
		runner.Go("service tokens", func(ctx context.Context) error { return tokens.Watch(ctx, s.options.Log) })
	}
	runner.Go("grpc", func(context.Context) error {
		if err := s.grpc.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) { // A drain may have come first.
			return err
		}
		return nil
	})
	runner.Go("grpc health", func(ctx context.Context) error {
		s.followReadiness(ctx, runner)
		return nil
	})
	runner.OnDrain("faces", func(ctx context.Context) error {
		s.health.Shutdown()
		var http, grpc error
		var faces sync.WaitGroup
		faces.Go(func() { http = face.stop(ctx) })
		faces.Go(func() { grpc = stopGRPC(ctx, s.grpc) })
		faces.Wait()
		return errors.Join(http, grpc)
	})
	return nil
}

// followEvery is how long gRPC health may lag behind readiness.
const followEvery = time.Second

// followReadiness keeps the gRPC health of the whole server equal to /health/ready, until ctx ends.
func (s *Server) followReadiness(ctx context.Context, runner *lifecycle.Runner) {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		status := healthpb.HealthCheckResponse_SERVING
		for _, check := range runner.Ready(ctx) {
			if check.Err != nil {
				status = healthpb.HealthCheckResponse_NOT_SERVING
			}
		}
		s.health.SetServingStatus("", status)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// stopGRPC lets calls finish within ctx, then cuts the remaining ones.
func stopGRPC(ctx context.Context, server *grpc.Server) error {
	done := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		server.Stop()
		<-done
		return fmt.Errorf("gRPC face: calls cancelled: %w", context.Cause(ctx))
	}
}

// Limits of every HTTP listener. There is no write timeout: streams set their own.
const (
	headerTime  = 10 * time.Second
	idleTime    = 2 * time.Minute
	headerBytes = 64 << 10
)

// ServeHTTP listens on addr and registers an HTTP server with the runner. A nil secure serves plain text.
func ServeHTTP(ctx context.Context, runner *lifecycle.Runner, name, addr string, h http.Handler, secure *tls.Config) error {
	face, err := listenHTTP(ctx, runner, name, addr, h, secure)
	if err != nil {
		return err
	}
	runner.OnDrain(name, face.stop)
	return nil
}

func listenHTTP(ctx context.Context, runner *lifecycle.Runner, name, addr string, h http.Handler, secure *tls.Config) (*face, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s face: %w", name, err)
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	f := &face{name: name, runner: runner, began: time.Now()}
	// Requests continue after ctx ends, until the drain cuts them.
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	f.end = end
	f.server = &http.Server{
		BaseContext: func(net.Listener) context.Context { return base },
		Handler:     boundBody(f.closeWhenDraining(h)), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
	}
	runner.Go(name, func(context.Context) error {
		if err := f.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("%s face: %w", name, err)
		}
		return nil
	})
	return f, nil
}

// face is an HTTP listener that stops without cutting connections that clients may still use.
type face struct {
	name   string
	server *http.Server
	runner *lifecycle.Runner
	// end ends the contexts of all requests.
	end context.CancelCauseFunc
	// early counts the requests in progress that began before the drain, and ended is when the last of them ended, in
	// nanoseconds since began.
	early, ended atomic.Int64
	began        time.Time
}

// reuseWindow is how long a client may take to send its next request on a connection that has just delivered a
// response, on a busy machine too; at most a quarter of the drain. idleCheck is the interval of the checks for it.
const (
	reuseWindow = time.Second
	idleCheck   = 10 * time.Millisecond
)

// stop lets requests finish within ctx, then cuts the remaining ones. Responses to requests from before the drain carry
// no "Connection: close". The listener therefore stays open until those requests have ended and reuseWindow has passed:
// a client that reuses such a connection at once gets a response, now with "Connection: close".
func (f *face) stop(ctx context.Context) error {
	window := reuseWindow
	if end, ok := ctx.Deadline(); ok {
		window = min(window, time.Until(end)/4)
	}
	for f.mayBeReused(window) {
		select {
		case <-ctx.Done():
			return f.close(ctx)
		case <-time.After(idleCheck):
		}
	}
	return f.close(ctx)
}

// mayBeReused reports whether a request from before the drain is in progress, or ended less than window ago: its response
// did not declare the connection closed.
func (f *face) mayBeReused(window time.Duration) bool {
	if f.early.Load() > 0 {
		return true
	}
	ended := f.ended.Load()
	return ended > 0 && time.Since(f.began)-time.Duration(ended) < window
}

// errDrained is the cause of the cancellation of requests that outlasted the drain.
var errDrained = errors.New("the service is stopping")

// cancelGrace is how long cancelled requests may take to answer and to record that they were cut.
const cancelGrace = 500 * time.Millisecond

// close lets requests finish within ctx. Then it cancels their contexts, and finally closes their connections: closing
// the connections alone would stop no handler that is computing or has not read its body.
func (f *face) close(ctx context.Context) error {
	err := f.server.Shutdown(ctx)
	f.end(errDrained)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer cancel()
	f.awaitTaken(last)
	if err == nil {
		return nil
	}
	_ = f.server.Shutdown(last)
	return errors.Join(fmt.Errorf("%s face: requests cancelled: %w", f.name, err), f.server.Close())
}

// awaitTaken waits for the handlers that have taken over their connection, such as those of WebSockets:
// http.Server.Shutdown doesn't wait for them.
func (f *face) awaitTaken(ctx context.Context) {
	for f.early.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(idleCheck):
		}
	}
}

// closeWhenDraining answers with "Connection: close" once the service is draining. When the listener closes, hardly any
// connection is then left on which a client might just be sending a request, which it could not safely repeat.
func (f *face) closeWhenDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.early.Add(1)
		if f.runner.Draining() {
			f.early.Add(-1)
			w.Header().Set("Connection", "close")
		} else {
			defer func() {
				f.ended.Store(int64(time.Since(f.began)))
				f.early.Add(-1)
			}()
		}
		next.ServeHTTP(w, r)
	})
}

// boundBody gives the client bodyTime to send a body, even if the handler doesn't read it: net/http reads the unread
// rest before it responds. A handler that runs longer than bodyTime clears the deadline once it has read the body.
func boundBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // -1 means unknown.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
		}
		next.ServeHTTP(w, r)
	})
}

// Live returns a handler that answers 200 as long as the process can answer.
func Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
}

// Ready returns a handler that answers 200 if every check passes and 503 otherwise, with each check's state by name.
// Error texts appear only in the log.
func Ready(runner *lifecycle.Runner) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, word := http.StatusOK, "ok"
		checks := make(map[string]string)
		for _, check := range runner.Ready(r.Context()) {
			checks[check.Name] = "ok"
			if check.Err != nil {
				checks[check.Name] = "failing"
				status, word = http.StatusServiceUnavailable, "unavailable"
			}
		}
		writeJSON(w, status, map[string]any{"status": word, "checks": checks})
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// Loopback reports whether a listen address is reachable from this machine only.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
