package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/screen"
	"switchyard.dev/services/platform/telemetry"
)

// handler serves a request, or returns an error before it has written anything. It fills in the log line.
type handler func(w http.ResponseWriter, r *http.Request, l *line) error

// line holds the fields of a request's log line.
type line struct {
	organization, key, caller string
	session                   *proxy.Session // of a WebSocket connection
	succeeded                 bool           // a service answered with success
}

// mount serves the methods of a path, HEAD as GET; others are refused with 405. The path is one pattern for all methods:
// the mux takes two overlapping paths with a method each for a conflict.
func (a *API) mount(path string, methods map[string]handler) {
	by := make(map[string]http.Handler, len(methods))
	for method, h := range methods {
		by[method] = a.observe(method+" "+path, h)
	}
	if by[http.MethodHead] == nil && by[http.MethodGet] != nil {
		by[http.MethodHead] = by[http.MethodGet]
	}
	allow := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
	refused := a.observe(path, func(w http.ResponseWriter, r *http.Request, _ *line) error { return notAllowed(w, r, allow) })
	a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		h, ok := by[r.Method]
		if !ok {
			h = refused
		}
		h.ServeHTTP(w, r)
	})
}

func notAllowed(w http.ResponseWriter, r *http.Request, allow string) error {
	w.Header().Set("Allow", allow) // RFC 9110, section 10.2.1
	return apierr.New(apierr.KindMethodNotAllowed, apierr.ReasonMethodNotAllowed, screen.Path(r.Method, "/")+" is not allowed here")
}

// served are the options of a request's span.
var served = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}

// observe adds a handler's span, metrics, log line and error response.
func (a *API) observe(name string, h handler) http.Handler {
	measured := measurements{route: name, by: make(map[int][]metric.RecordOption)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx = telemetry.WithRequestID(ctx, r.Header.Get(caller.HeaderRequest))
		ctx, span := a.options.Tracer.Start(ctx, name, served...)
		defer span.End()
		r = r.WithContext(ctx)

		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		err := guarded(h, seen, r, &seen.line)
		status := seen.status
		cut := seen.begun || errors.Is(err, proxy.ErrCut)
		if err != nil && !cut {
			status = apierr.From(err).Kind.HTTPStatus()
		}
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
		elapsed := time.Since(start)
		a.duration.Record(ctx, elapsed.Seconds(), measured.of(status)...)
		a.log(ctx, name, status, elapsed, seen.line, err)
		switch {
		case err != nil && cut: // the client must not take a partial response for a complete one
			panic(http.ErrAbortHandler)
		case err != nil:
			rpc.WriteError(w, r, apierr.From(err), a.errorBody(r.URL.Path))
		}
	})
}

// measurements holds the attributes of a route's measurements by status, because a set costs more than its measurement.
type measurements struct {
	route string
	mu    sync.RWMutex
	by    map[int][]metric.RecordOption
}

func (m *measurements) of(status int) []metric.RecordOption {
	m.mu.RLock()
	known := m.by[status]
	m.mu.RUnlock()
	if known != nil {
		return known
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	made := []metric.RecordOption{metric.WithAttributeSet(
		attribute.NewSet(attribute.String("route", m.route), attribute.Int("status", status)))}
	m.by[status] = made
	return made
}

// errorBody returns the error format of a path.
func (a *API) errorBody(path string) func(*apierr.Error, string) any {
	if a.options.Table.PlainErrors(path) {
		return apierr.NewPlain
	}
	return dialectBody(a.options.Table.Dialect(path))
}

// guarded converts a panic of a request to an internal error.
func guarded(h handler, w http.ResponseWriter, r *http.Request, l *line) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = apierr.Internal(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	return h(w, r, l)
}

// mostAttrs is how many attributes a request's log line has at most.
const mostAttrs = 12

func (a *API) log(ctx context.Context, name string, status int, elapsed time.Duration, l line, err error) {
	attrs := append(make([]slog.Attr, 0, mostAttrs),
		slog.String("route", name), slog.Int("status", status), slog.Int64("duration_us", elapsed.Microseconds()))
	for _, known := range []slog.Attr{
		slog.String("organization", l.organization), slog.String("key", l.key), slog.String("caller", l.caller),
	} {
		if known.Value.String() != "" {
			attrs = append(attrs, known)
		}
	}
	if s := l.session; s != nil && s.Code != 0 {
		attrs = append(attrs, slog.Int("websocket_code", s.Code), slog.String("websocket_reason", s.Reason),
			slog.Int("requests", s.Requests), slog.Int("counted", s.Counted))
	}
	level := slog.LevelInfo
	if err != nil {
		shown := apierr.From(err)
		attrs = append(attrs, slog.String("error", err.Error()), slog.Bool("cut", errors.Is(err, proxy.ErrCut)))
		if shown.Kind.HTTPStatus() >= http.StatusInternalServerError && ctx.Err() == nil && !errors.Is(err, errDrained) {
			level = slog.LevelError
		}
	}
	a.options.Log.LogAttrs(ctx, level, "call", attrs...)
}

// inject adds the trace context to the headers of the call to a service.
func inject(ctx context.Context, h http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// statusWriter records the status and whether the response has begun. It also holds the request's log line, so that both
// are one object.
type statusWriter struct {
	http.ResponseWriter

	status int
	begun  bool
	line   line
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status, w.begun = status, true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// Unwrap supports http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
