package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/telemetry"
)

// observer is the outermost step: request id, span, metrics and the one log line of a call. It also converts every
// error into one that may be shown to the caller.
type observer struct {
	log      *slog.Logger
	tracer   trace.Tracer
	duration metric.Float64Histogram
	panics   metric.Int64Counter
	// labels caches attribute sets, because making one costs more than recording a duration.
	labels sync.Map // outcome to metric.MeasurementOption
}

// outcome holds the attributes of the duration metric.
type outcome struct {
	method string
	face   Face
	status int
}

func (o *observer) label(of outcome) metric.MeasurementOption {
	if known, ok := o.labels.Load(of); ok {
		return known.(metric.MeasurementOption) //nolint:errcheck,forcetypeassert // The map holds nothing else.
	}
	made := metric.WithAttributeSet(attribute.NewSet(
		attribute.String("method", of.method), attribute.String("face", string(of.face)), attribute.Int("status", of.status)))
	o.labels.Store(of, made)
	return made
}

func newObserver(log *slog.Logger, tracer trace.Tracer, meter metric.Meter) (*observer, error) {
	duration, err := meter.Float64Histogram("switchyard.rpc.duration",
		metric.WithUnit("s"), metric.WithDescription("Duration of calls by method, face and HTTP status."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60))
	if err != nil {
		return nil, fmt.Errorf("duration histogram: %w", err)
	}
	panicked, err := meter.Int64Counter("switchyard.rpc.panics",
		metric.WithDescription("Panics that ended a call, or work done after its response, by method; each is logged with its stack."))
	if err != nil {
		return nil, fmt.Errorf("panics counter: %w", err)
	}
	return &observer{log: log, tracer: tracer, duration: duration, panics: panicked}, nil
}

// headerCarrier lets the W3C propagator read a call's headers.
type headerCarrier func(string) string

func (c headerCarrier) Get(key string) string { return c(key) }
func (c headerCarrier) Set(string, string)    {}
func (c headerCarrier) Keys() []string        { return []string{"traceparent", "tracestate"} }

func (o *observer) step(ctx context.Context, call *Call, next func(context.Context) error) error {
	start := time.Now()
	ctx = propagation.TraceContext{}.Extract(ctx, headerCarrier(call.Header))
	ctx, span := o.tracer.Start(ctx, call.Method[1:], trace.WithSpanKind(trace.SpanKindServer))
	call.observer, call.start, call.span = o, start, span

	requestID := RequestID(call.Header(caller.HeaderRequest))
	ctx = telemetry.WithRequestID(ctx, requestID)
	ctx = context.WithValue(ctx, callKey{}, call)
	if call.Face == FaceGRPC {
		_ = grpc.SetHeader(ctx, metadata.Pairs(caller.HeaderRequest, requestID))
	}

	err := next(ctx)
	call.finish(ctx)
	if call.detached {
		return err
	}
	return o.end(ctx, call, err)
}

// end ends the call's span, records its duration and writes its log line. It returns the error that may be shown to the
// caller.
func (o *observer) end(ctx context.Context, call *Call, err error) error {
	defer call.span.End()
	shown := apierr.From(err)
	status := 200
	if shown != nil {
		status = shown.Kind.HTTPStatus()
	}
	if status >= 500 { // A caller's mistake is no error of a server's span.
		call.span.SetStatus(codes.Error, string(shown.Reason))
	}
	elapsed := time.Since(call.start)
	o.duration.Record(ctx, elapsed.Seconds(), o.label(outcome{call.Method, call.Face, status}))
	o.logCall(ctx, call, status, elapsed, shown)
	if shown == nil {
		return nil
	}
	return shown
}

// logCall writes the log line of a call. Durations in logs are integer microseconds.
func (o *observer) logCall(ctx context.Context, call *Call, status int, elapsed time.Duration, shown *apierr.Error) {
	var buffer [2 * usualAttrs]slog.Attr
	attrs := append(buffer[:0],
		slog.String("method", call.Method), slog.String("face", string(call.Face)), slog.Int("status", status),
		slog.Int64("duration_us", elapsed.Microseconds()))
	attrs = append(attrs, call.attrs...)
	level := slog.LevelInfo
	if shown != nil {
		attrs = append(attrs, slog.String("reason", string(shown.Reason)), slog.String("error", shown.Error()))
		if status >= 500 && shown.Kind != apierr.KindNotImplemented {
			level = slog.LevelError
		}
	}
	if out := o.log.Handler(); out.Enabled(ctx, level) {
		// The record carries no source position: the log doesn't show one, and finding it takes a stack walk.
		record := slog.NewRecord(time.Now(), level, "call", 0)
		record.AddAttrs(attrs...)
		_ = out.Handle(ctx, record)
	}
}

// recoverPanic turns a panic into an internal error, so that it doesn't end other calls.
func (o *observer) recoverPanic(ctx context.Context, call *Call, next func(context.Context) error) error {
	err := panics.Call(func() error { return next(ctx) })
	if _, ok := err.(*panics.Error); ok { //nolint:errorlint // A panic recovered deeper is an ordinary error.
		o.panicked(ctx, call)
		return apierr.Internal(err)
	}
	return err
}

// panicked counts a panic of a call.
func (o *observer) panicked(ctx context.Context, call *Call) {
	o.panics.Add(ctx, 1, metric.WithAttributes(attribute.String("method", call.Method)))
}

// usualAttrs is the capacity reserved for the attributes that a handler adds to the log line.
const usualAttrs = 12

// authorize authenticates the caller and checks the method's role.
func (s *Server) authorize(ctx context.Context, call *Call, next func(context.Context) error) error {
	if call.caller == nil {
		c, err := s.authenticate(call.Method, call.Header)
		if err != nil {
			return err
		}
		call.caller = &c
	}
	c := *call.caller
	call.attrs = append(slices.Grow(call.attrs, usualAttrs), slog.String("caller", c.Name))
	if c.Organization != "" {
		call.attrs = append(call.attrs, slog.String("organization", c.Organization))
	}
	return next(caller.With(ctx, c))
}

// authenticate returns the caller of a method, or an error if the caller is unknown or may not call it.
func (s *Server) authenticate(method string, header func(string) string) (caller.Caller, error) {
	role, known := s.methods.roles[method]
	c := caller.Caller{Name: "anonymous", Role: caller.RolePublic}
	switch {
	case !known && open(method):
		return c, nil
	case !known:
		return c, apierr.New(apierr.KindNotImplemented, apierr.ReasonNotImplemented, "unknown method")
	case s.options.Tokens == nil:
		c = caller.Caller{Name: "loopback", Role: caller.RoleOperator}
	case role != caller.RolePublic:
		found, err := s.options.Tokens.Authenticate(header("Authorization"))
		if err != nil {
			return c, fmt.Errorf("authenticate: %w", err)
		}
		c = found
	}
	if !c.Role.May(role) {
		return c, apierr.New(apierr.KindForbidden, apierr.ReasonForbidden,
			fmt.Sprintf("this operation needs the role %s; the token's role is %s", role, c.Role))
	}
	if c.Role == caller.RolePublic {
		return c, nil // Headers of a public caller can't be trusted.
	}
	if err := c.Read(header); err != nil {
		return c, fmt.Errorf("read identity: %w", err)
	}
	return c, s.mayCount(c)
}

// open reports whether a method is one of the infrastructure methods that every gRPC server serves without
// authentication.
func open(method string) bool {
	switch method {
	case "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/List",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo":
		return true
	}
	return false
}

var errUnaryTimeout = errors.New("unary call exceeded its time limit")

// bound applies the time limit of unary calls.
func (s *Server) bound(ctx context.Context, call *Call, next func(context.Context) error) error {
	if call.Message == nil {
		return next(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.UnaryTimeout, errUnaryTimeout)
	defer cancel()
	return next(ctx)
}

// screen applies RefuseMessage to a unary request.
func (s *Server) screen(ctx context.Context, call *Call, next func(context.Context) error) error {
	if call.Message != nil {
		if err := s.refuseMessage(call.Message); err != nil {
			return err
		}
	}
	return next(ctx)
}

// refuseMessage calls Options.RefuseMessage if it is set.
func (s *Server) refuseMessage(m any) error {
	if s.options.RefuseMessage == nil {
		return nil
	}
	return s.options.RefuseMessage(m)
}

// validate applies the contract's rules to a unary request. Streams validate each message; HTTP handlers call Validate
// on what they decode.
func validate(ctx context.Context, call *Call, next func(context.Context) error) error {
	if call.Message != nil {
		if err := Validate(call.Message); err != nil {
			return err
		}
	}
	return next(ctx)
}
