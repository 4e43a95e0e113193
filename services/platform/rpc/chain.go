package rpc

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/telemetry"
)

// Face is the wire interface on which a call arrived.
type Face string

// The faces.
const (
	FaceGRPC Face = "grpc"
	FaceHTTP Face = "http"
)

// Call is the state of one call, shared by the steps of the chain.
type Call struct {
	// Method is the full gRPC method name, "/package.Service/Method".
	Method string
	Face   Face
	// Header returns the first value of a header or metadata key, empty if there is none.
	Header func(name string) string
	// Message is the request of a unary call, nil for other calls.
	Message any

	// read reads the request into Message; nil if Message has been read already.
	read func(any) error
	// caller is the authenticated caller, nil until it is known.
	caller *caller.Caller
	attrs  []slog.Attr

	mu    sync.Mutex
	after []func()

	// The following are what observer.end needs; detached reports whether end runs later than the handler's return.
	observer *observer
	start    time.Time
	span     trace.Span
	detached bool
}

// step is one concern that applies to every call: unary, streaming or plain HTTP.
type step struct {
	name string
	do   func(ctx context.Context, call *Call, next func(context.Context) error) error
}

// chain is the list of steps, outermost first. Unary interceptors, stream interceptors and HTTP handlers are all built
// from this list, so that no face can skip a step.
type chain []step

func (c chain) run(ctx context.Context, call *Call, handle func(context.Context) error) error {
	r := chainRun{steps: c, call: call, handle: handle}
	r.next = r.proceed
	return r.proceed(ctx)
}

// chainRun is one call's progress through the chain. Each step calls next at most once.
type chainRun struct {
	steps  chain
	call   *Call
	handle func(context.Context) error
	next   func(context.Context) error
}

func (r *chainRun) proceed(ctx context.Context) error {
	if len(r.steps) == 0 {
		return r.handle(ctx)
	}
	step := r.steps[0]
	r.steps = r.steps[1:]
	return step.do(ctx, r.call, r.next)
}

// unary returns the interceptor of a face. read reads the request; nil if the request has been read already.
func (c chain) unary(face Face, read func(any) error) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		var resp any
		call := &Call{Method: info.FullMethod, Face: face, Header: incoming(ctx), Message: req, read: read}
		err := c.run(ctx, call, func(ctx context.Context) (err error) {
			resp, err = handle(ctx, req)
			return err
		})
		if err != nil {
			if face == FaceGRPC {
				_ = grpc.SetTrailer(ctx, pushback(err)) // It fails only outside a call.
			}
			return nil, err
		}
		return resp, nil
	}
}

func (c chain) stream(face Face, refuse func(m any) error, bodies *bodymemory.Budget) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		call := &Call{Method: info.FullMethod, Face: face, Header: incoming(ss.Context())}
		err := c.run(ss.Context(), call, func(ctx context.Context) error {
			body := bodies.Open(call.caller.Organization)
			defer body.Close()
			return handle(srv, &checkedStream{ServerStream: ss, refuse: refuse, body: &body, ctx: ctx})
		})
		if err != nil {
			ss.SetTrailer(pushback(err))
		}
		return err
	}
}

// incoming returns a lookup of the call's incoming metadata.
func incoming(ctx context.Context) func(string) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return first(md)
}

// checkedStream carries the chain's context and checks each received message, as the decode, screen and validate steps
// do for a unary call.
type checkedStream struct {
	grpc.ServerStream
	refuse func(m any) error
	body   *bodymemory.Hold
	ctx    context.Context //nolint:containedctx // grpc.ServerStream returns its context from a method.
}

// Context returns the stream's context with the values that the chain added.
func (s *checkedStream) Context() context.Context { return s.ctx }

// RecvMsg receives one message and applies RefuseMessage and the contract's rules to it.
func (s *checkedStream) RecvMsg(m any) error {
	if err := receive(s.ServerStream.RecvMsg, m, s.body); err != nil {
		return err
	}
	if err := s.refuse(m); err != nil {
		return err
	}
	return Validate(m)
}

type callKey struct{}

// Annotate adds attributes to the call's one log line. Handlers use it for what an operator needs besides status and
// duration. It does nothing without a call in ctx.
func Annotate(ctx context.Context, attrs ...slog.Attr) {
	if call, ok := ctx.Value(callKey{}).(*Call); ok {
		call.attrs = append(call.attrs, attrs...)
	}
}

// After runs f when the call's handler has returned; a handler that writes its own response has sent it by then. It is
// for work that no client waits for. Without a call in ctx, f runs at once. Don't defer a change of state that a later
// call depends on.
func After(ctx context.Context, f func()) {
	call, ok := ctx.Value(callKey{}).(*Call)
	if !ok {
		f()
		return
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	call.after = append(call.after, f)
}

// finish runs the functions given to After. The response has been sent, so a panic of one doesn't stop the others; it
// is counted and logged.
func (c *Call) finish(ctx context.Context) {
	c.mu.Lock()
	after := c.after
	c.mu.Unlock()
	for _, f := range after {
		if err := panics.Call(func() error { f(); return nil }); err != nil {
			c.observer.panicked(ctx, c)
			c.observer.log.ErrorContext(ctx, "a function given to rpc.After panicked", slog.String("method", c.Method), slog.String("error", err.Error()))
		}
	}
}

// Detach lets a call continue after its handler has returned nil, having handed the connection to other code. The
// returned context carries the call's request id and span, is never cancelled, and holds nothing of the request. The
// other code must call end once, with the call's error or nil; end writes the one log line and records the duration.
func Detach(ctx context.Context) (left context.Context, end func(error)) {
	call, ok := ctx.Value(callKey{}).(*Call)
	if !ok {
		return context.WithoutCancel(ctx), func(error) {}
	}
	call.detached = true
	kept := &Call{
		Method: call.Method, Face: call.Face, attrs: slices.Clone(call.attrs),
		observer: call.observer, start: call.start, span: call.span,
	}
	left = trace.ContextWithSpan(telemetry.WithRequestID(context.Background(), telemetry.RequestID(ctx)), call.span)
	return left, func(err error) { _ = kept.observer.end(left, kept, err) }
}
