package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
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
	"switchyard.dev/services/platform/telemetry"
)

// served are the options of a request's span.
var served = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}

// observe adds a handler's span, metrics, log line and error response.
func (c *Chain) observe(name string, h Handler) http.Handler {
	measured := measurements{route: name, by: make(map[int][]metric.RecordOption)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx = telemetry.WithRequestID(ctx, r.Header.Get(caller.HeaderRequest))
		ctx, span := c.options.Tracer.Start(ctx, name, served...)
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
		c.duration.Record(ctx, elapsed.Seconds(), measured.of(status)...)
		c.log(ctx, name, status, elapsed, seen.line, err)
		switch {
		case err != nil && cut: // the client must not take a partial response for a complete one
			panic(http.ErrAbortHandler)
		case err != nil:
			rpc.WriteError(w, r, apierr.From(err), c.options.ErrorBody(r.URL.Path))
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

// guarded converts a panic of a request to an internal error.
func guarded(h Handler, w http.ResponseWriter, r *http.Request, l *Line) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = apierr.Internal(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	return h(w, r, l)
}

// ErrDrained is the cause of the end of a call that would not end by itself in a drain. It is no failure.
var ErrDrained = errors.New("the edge drains")

// mostAttrs is how many attributes a request's log line has at most.
const mostAttrs = 12

func (c *Chain) log(ctx context.Context, name string, status int, elapsed time.Duration, l Line, err error) {
	attrs := append(make([]slog.Attr, 0, mostAttrs),
		slog.String("route", name), slog.Int("status", status), slog.Int64("duration_us", elapsed.Microseconds()))
	for _, known := range []slog.Attr{
		slog.String("organization", l.Organization), slog.String("key", l.Key), slog.String("caller", l.Caller),
	} {
		if known.Value.String() != "" {
			attrs = append(attrs, known)
		}
	}
	if s := l.Session; s != nil && s.Code != 0 {
		attrs = append(attrs, slog.Int("websocket_code", s.Code), slog.String("websocket_reason", s.Reason),
			slog.Int("requests", s.Requests), slog.Int("counted", s.Counted))
	}
	level := slog.LevelInfo
	if err != nil {
		shown := apierr.From(err)
		attrs = append(attrs, slog.String("error", err.Error()), slog.Bool("cut", errors.Is(err, proxy.ErrCut)))
		if shown.Kind.HTTPStatus() >= http.StatusInternalServerError && ctx.Err() == nil && !errors.Is(err, ErrDrained) {
			level = slog.LevelError
		}
	}
	c.options.Log.LogAttrs(ctx, level, "call", attrs...)
}

// statusWriter records the status and whether the response has begun. It also holds the request's log line, so that both
// are one object.
type statusWriter struct {
	http.ResponseWriter

	status int
	begun  bool
	line   Line
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

// Inject adds the trace context to the headers of the call to a service.
func Inject(ctx context.Context, h http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}
