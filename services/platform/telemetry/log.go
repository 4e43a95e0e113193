package telemetry

import (
	"context"
	"log/slog"
	"os"
	"slices"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
)

type requestIDKey struct{}

// WithRequestID returns a context whose log lines carry the request's id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID returns the id of the request that ctx belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

func (t *Telemetry) setupLog(ctx context.Context, opts Options, res *resource.Resource) error {
	base := t.newHandler(opts)
	exported, err := logs.exported()
	if err != nil {
		return err
	}
	if exported {
		exporter, err := otlploggrpc.New(ctx)
		if err != nil {
			return err
		}
		provider := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)))
		base = slog.NewMultiHandler(base, otelslog.NewHandler(opts.Service, otelslog.WithLoggerProvider(provider)))
		t.logClosers = append(t.logClosers, provider.Shutdown)
	}
	t.Log = slog.New(&handler{Handler: base, base: base, least: opts.LogLevel, sample: sample{opts.LogDropped.Rest()}, flush: t.flush})
	return nil
}

// flush writes the lines that wait.
func (t *Telemetry) flush() {
	if t.lines != nil {
		t.lines.flush()
	}
}

// newHandler returns the handler that writes lines of JSON.
func (t *Telemetry) newHandler(opts Options) slog.Handler {
	w := opts.LogWriter
	if w == nil {
		t.lines = newLines(os.Stderr)
		t.logClosers = append(t.logClosers, func(context.Context) error {
			t.lines.end()
			return nil
		})
		w = t.lines
	}
	out := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: opts.LogLevel, ReplaceAttr: rename})
	return out.WithAttrs([]slog.Attr{slog.String("service", opts.Service), slog.String("version", opts.Version)})
}

// rename changes the key of a line's time to ts and its zone to UTC. It also converts the level to text, for which the
// handler would use reflection.
func rename(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		if a.Value.Kind() == slog.KindTime {
			return slog.Time("ts", a.Value.Time().UTC())
		}
	case slog.LevelKey:
		if level, ok := a.Value.Any().(slog.Level); ok {
			return slog.String(slog.LevelKey, level.String())
		}
	}
	return a
}

// handler adds the ids of a line's context. It adds them before the logger's own attributes and groups, so that they
// stay on the top level beside msg.
type handler struct {
	slog.Handler // base with all steps applied

	base  slog.Handler
	steps []step
	least slog.Level
	sample
	// flush writes lines that wait. A warning or an error isn't held back.
	flush func()
}

type step func(slog.Handler) slog.Handler

// usualAttrs is the capacity reserved for the attributes of a call's line.
const usualAttrs = 24

// Enabled implements slog.Handler. The handler of exported lines would take all of them.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.least }

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.keeps(RequestID(ctx), &r) {
		return nil
	}
	err := h.write(ctx, r)
	if r.Level >= slog.LevelWarn {
		h.flush()
	}
	return err
}

func (h *handler) write(ctx context.Context, r slog.Record) error {
	var buffer [usualAttrs]slog.Attr
	ids := appendIDs(ctx, buffer[:0])
	switch {
	case len(ids) == 0:
		return h.Handler.Handle(ctx, r)
	case len(h.steps) == 0: // The common case. It makes no handler for the line.
		line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
		r.Attrs(func(a slog.Attr) bool {
			ids = append(ids, a)
			return true
		})
		line.AddAttrs(ids...)
		return h.Handler.Handle(ctx, line)
	}
	to := h.base.WithAttrs(slices.Clone(ids))
	for _, step := range h.steps {
		to = step(to)
	}
	return to.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *handler) with(s step) slog.Handler {
	return &handler{Handler: s(h.Handler), base: h.base, steps: append(slices.Clip(h.steps), s), least: h.least, sample: h.sample, flush: h.flush}
}

// appendIDs appends the request id and trace id of a context.
func appendIDs(ctx context.Context, to []slog.Attr) []slog.Attr {
	if id := RequestID(ctx); id != "" {
		to = append(to, slog.String("request_id", id))
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		to = append(to, slog.String("trace_id", span.TraceID().String()))
	}
	return to
}
