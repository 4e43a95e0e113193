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

// Handler is the whole HTTP face: open handlers first, then the contract's paths. Paths are matched as they come: one
// that http.ServeMux would redirect to its clean form is simply not there. With mutual TLS the open handlers (health,
// metrics, documents) need no certificate, because probes have none; all other paths are refused without one.
func (s *Server) Handler() http.Handler {
	return WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verb := r.Method
		if verb == http.MethodHead {
			verb = http.MethodGet
		}
		if h, ok := s.open[place{verb, r.URL.Path}]; ok {
			h.ServeHTTP(w, r)
			return
		}
		s.adopt(w, r)
		if !s.certified(r) {
			s.writeError(w, r, apierr.New(apierr.KindUnauthenticated, "client_certificate_required", "a client certificate is required"))
			return
		}
		if h, ok := s.exact[place{r.Method, r.URL.Path}]; ok && r.URL.RawPath == "" {
			h(w, r)
			return
		}
		s.mux.ServeHTTP(w, r)
	}))
}

// mutual reports whether callers must show a certificate.
func (s *Server) mutual() bool {
	return s.options.TLS != nil && s.options.TLS.ClientAuth == tls.RequireAndVerifyClientCert
}

// certified reports whether a caller over HTTP has shown the certificate that it
// must. The handshake can't ask for it: who probes health or scrapes metrics has none.
func (s *Server) certified(r *http.Request) bool {
	return !s.mutual() || r.TLS != nil && len(r.TLS.VerifiedChains) > 0
}

// httpTLS is the HTTP listener's configuration: open handlers answer callers
// without a certificate, a wrong one ends the handshake. See certified.
func (s *Server) httpTLS() *tls.Config {
	if !s.mutual() {
		return s.options.TLS
	}
	return unasked(s.options.TLS)
}

// adopt copies the key from a dialect's own header to Authorization, where all other
// code reads it, and adds the dialect's own header of the request id to the answer.
func (s *Server) adopt(w http.ResponseWriter, r *http.Request) {
	d := s.dialect(r)
	if key := r.Header.Get(d.KeyHeader); key != "" && r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if d.IDHeader != "" {
		w.Header().Set(d.IDHeader, w.Header().Get(caller.HeaderRequest))
	}
}

func (s *Server) dialect(r *http.Request) Dialect {
	if s.options.Dialect == nil {
		return Dialect{}
	}
	return s.options.Dialect(r)
}

// GRPC is the gRPC face.
func (s *Server) GRPC() *grpc.Server { return s.grpc }

// WithRequestID gives every request an id, kept when the caller's is valid, and
// every answer the same one.
func WithRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := RequestID(r.Header.Get(caller.HeaderRequest))
		r.Header.Set(caller.HeaderRequest, id)
		w.Header().Set(caller.HeaderRequest, id)
		next.ServeHTTP(w, r)
	})
}

// Serve listens on both addresses and hands the faces to the runner: gRPC
// health follows readiness, and both drain together.
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
	runner.Go("grpc", func(context.Context) error { return s.grpc.Serve(listener) })
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

// followEvery is how far gRPC health may be behind readiness.
const followEvery = time.Second

// followReadiness keeps the gRPC health of the whole server what /health/ready
// says, until ctx ends.
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

// stopGRPC lets calls finish within ctx, then cuts those that are left.
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
		return fmt.Errorf("calls cut: %w", context.Cause(ctx))
	}
}

// Limits of every HTTP listener. There is no write limit: streams keep their own clocks.
const (
	headerTime  = 10 * time.Second
	idleTime    = 2 * time.Minute
	headerBytes = 64 << 10
)

// ServeHTTP listens on addr and hands an HTTP server to the runner.
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
	f := &face{name: name, runner: runner}
	// Requests outlive what ends the service, until the drain cuts them.
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	f.end = end
	f.server = &http.Server{
		BaseContext: func(net.Listener) context.Context { return base },
		Handler:     boundBody(f.letGo(h)), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
	}
	runner.Go(name, func(context.Context) error {
		if err := f.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("%s face: %w", name, err)
		}
		return nil
	})
	return f, nil
}

// face is an HTTP listener that stops without cutting a caller off.
type face struct {
	name   string
	server *http.Server
	runner *lifecycle.Runner
	// end ends the contexts of all requests.
	end context.CancelCauseFunc
	// early are requests under way that began before the service was stopping.
	early atomic.Int64
}

// turn is the time that a caller takes to send its next request on a connection
// that has just given it an answer; idleCheck is how often to look.
const (
	turn      = 200 * time.Millisecond
	idleCheck = 10 * time.Millisecond
)

// stop lets requests finish within ctx, then cuts those that are left. The
// listener stays open until those have ended that began before the drain, since
// their answers did not say that the connection ends: who sends again on one at
// once is answered, and told.
func (f *face) stop(ctx context.Context) error {
	for last := (time.Time{}); f.early.Load() > 0 || time.Since(last) < turn; {
		if f.early.Load() > 0 {
			last = time.Now()
		}
		select {
		case <-ctx.Done():
			return f.close(ctx)
		case <-time.After(idleCheck):
		}
	}
	return f.close(ctx)
}

// errDrained is the cause of the end of requests that the drain did not wait for.
var errDrained = errors.New("the service stops")

// lastWords is the time that requests which were cut have to say and record so.
const lastWords = 500 * time.Millisecond

// close lets requests finish within ctx. Then it ends what they do, and at last
// their connections: closing those alone ends no handler that is computing, or that
// has not read its body.
func (f *face) close(ctx context.Context) error {
	err := f.server.Shutdown(ctx)
	f.end(errDrained)
	if err == nil {
		return nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	_ = f.server.Shutdown(last)
	return errors.Join(fmt.Errorf("%s face: requests cut: %w", f.name, err), f.server.Close())
}

// letGo ends connections with their next answer once the service is stopping:
// when the listener closes, hardly one is left on which a caller might just be
// sending, which is a call that it could not safely send again.
func (f *face) letGo(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.runner.Draining() {
			w.Header().Set("Connection", "close")
		} else {
			f.early.Add(1)
			defer f.early.Add(-1)
		}
		next.ServeHTTP(w, r)
	})
}

// boundBody gives the client bodyTime to send a body, also when the handler doesn't
// read it: before it answers, net/http waits for what was left unread. A handler
// that outlasts bodyTime takes the limit off once it has read.
func boundBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // -1 is not said
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
		}
		next.ServeHTTP(w, r)
	})
}

// Live answers 200 as long as the process can answer at all.
func Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
}

// Ready answers 200 when every check passes and 503 otherwise, with each
// check's state by name. The texts of the errors stay in the log.
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
