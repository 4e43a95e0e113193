package telemetry

import (
	"context"
	"io"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel/trace"
)

type requestIDKey struct{}

// WithRequestID returns a context whose log lines carry the request's id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID is the id of the request that ctx belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

func newLogger(opts Options) *slog.Logger {
	var w io.Writer = os.Stderr
	if opts.LogWriter != nil {
		w = opts.LogWriter
	}
	out := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: opts.LogLevel, ReplaceAttr: rename})
	return slog.New(&handler{Handler: out}).With("service", opts.Service, "version", opts.Version)
}

// rename calls the time of a line ts and writes it in UTC.
func rename(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		return slog.Time("ts", a.Value.Time().UTC())
	}
	return a
}

// handler adds to each line the ids that its context carries, beside msg even
// when the logger has open groups.
type handler struct {
	slog.Handler // all of the logger's attributes and groups

	// outer is the handler before the logger's first group; inside applies to
	// it what came since. Both are nil without a group.
	outer  slog.Handler
	inside func(slog.Handler) slog.Handler
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	ids := contextIDs(ctx)
	switch {
	case len(ids) == 0:
		return h.Handler.Handle(ctx, r)
	case h.inside != nil:
		return h.inside(h.outer.WithAttrs(ids)).Handle(ctx, r)
	default:
		r = r.Clone()
		r.AddAttrs(ids...)
		return h.Handler.Handle(ctx, r)
	}
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := &handler{Handler: h.Handler.WithAttrs(attrs)}
	if h.inside != nil {
		next.outer = h.outer
		next.inside = func(to slog.Handler) slog.Handler { return h.inside(to).WithAttrs(attrs) }
	}
	return next
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	next := &handler{Handler: h.Handler.WithGroup(name), outer: h.outer}
	next.inside = func(to slog.Handler) slog.Handler { return h.inside(to).WithGroup(name) }
	if h.inside == nil {
		next.outer = h.Handler
		next.inside = func(to slog.Handler) slog.Handler { return to.WithGroup(name) }
	}
	return next
}

func contextIDs(ctx context.Context) []slog.Attr {
	var ids []slog.Attr
	if id := RequestID(ctx); id != "" {
		ids = append(ids, slog.String("request_id", id))
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		ids = append(ids, slog.String("trace_id", span.TraceID().String()))
	}
	return ids
}
