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

	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/telemetry"
)

// Face names which of a service's two faces a call came in by.
type Face string

// The faces.
const (
	FaceGRPC Face = "grpc"
	FaceHTTP Face = "http"
)

// Call is what the steps of the chain know of a call.
type Call struct {
	// Method is the full gRPC method name.
	Method string
	Face   Face
	// Header gives a header's or metadata key's first value.
	Header func(name string) string
	// Message is the request of a unary call, nil otherwise.
	Message any
	// Stream tells that the call may last.
	Stream bool

	// read reads the request into Message; nil where it is there already.
	read func(any) error
	// caller is set where it is known already.
	caller *caller.Caller
	attrs  []slog.Attr

	mu    sync.Mutex
	after []func()

	// What observer.end needs, and whether that comes later than the handler's return.
	observer *observer
	start    time.Time
	span     trace.Span
	detached bool
}

// step is one concern round every call: unary, streaming and plain HTTP alike.
type step struct {
	name string
	do   func(ctx context.Context, call *Call, next func(context.Context) error) error
}

// chain is the order of the steps, outermost first. Unary and stream
// interceptors and HTTP handlers are all made from this one list, so that no
// face can skip a step.
type chain []step

func (c chain) run(ctx context.Context, call *Call, handle func(context.Context) error) error {
	w := walk{steps: c, call: call, handle: handle}
	w.next = w.on
	return w.on(ctx)
}

// walk is a call on its way through the steps that are left. Each step calls next
// once at the most.
type walk struct {
	steps  chain
	call   *Call
	handle func(context.Context) error
	next   func(context.Context) error
}

func (w *walk) on(ctx context.Context) error {
	if len(w.steps) == 0 {
		return w.handle(ctx)
	}
	step := w.steps[0]
	w.steps = w.steps[1:]
	return step.do(ctx, w.call, w.next)
}

// unary makes the interceptor of a face. read, where it is given, reads the request.
func (c chain) unary(face Face, read func(any) error) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		var resp any
		call := &Call{Method: info.FullMethod, Face: face, Header: incoming(ctx), Message: req, read: read}
		err := c.run(ctx, call, func(ctx context.Context) (err error) {
			resp, err = handle(ctx, req)
			return err
		})
		if err != nil {
			return nil, err
		}
		return resp, nil
	}
}

func (c chain) stream(face Face, refuse func(m any) error) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		call := &Call{Method: info.FullMethod, Face: face, Header: incoming(ss.Context()), Stream: true}
		return c.run(ss.Context(), call, func(ctx context.Context) error {
			return handle(srv, &checkedStream{ServerStream: ss, refuse: refuse, ctx: ctx})
		})
	}
}

// incoming reads call metadata like headers.
func incoming(ctx context.Context) func(string) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return first(md)
}

// checkedStream carries the chain's context and checks each message as it is
// received, as the decode, screen and validate steps do for a unary call.
type checkedStream struct {
	grpc.ServerStream
	refuse func(m any) error
	ctx    context.Context //nolint:containedctx // grpc.ServerStream hands its context out by a method.
}

// Context is the stream's context with all that the chain added.
func (s *checkedStream) Context() context.Context { return s.ctx }

// RecvMsg receives one message and applies the contract's rules to it.
func (s *checkedStream) RecvMsg(m any) error {
	if err := receive(s.ServerStream.RecvMsg, m); err != nil {
		return err
	}
	if err := s.refuse(m); err != nil {
		return err
	}
	return Validate(m)
}

type callKey struct{}

// Annotate adds attributes to the call's one log line: what the handler learned
// that an operator will want to see beside status and duration.
func Annotate(ctx context.Context, attrs ...slog.Attr) {
	if call, ok := ctx.Value(callKey{}).(*Call); ok {
		call.attrs = append(call.attrs, attrs...)
	}
}

// After runs f when the call's handler has returned, and so has sent its answer where it writes that itself. It is for
// work that no client waits for. Without a call, f runs at once. State that a later call depends on
// is not deferred this way.
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

// finish runs what was put off. The answer has gone: a panic of one costs no other,
// and is counted and in the log.
func (c *Call) finish(ctx context.Context) {
	c.mu.Lock()
	after := c.after
	c.mu.Unlock()
	for _, f := range after {
		if err := panics.Call(func() error { f(); return nil }); err != nil {
			c.observer.panicked(ctx, c)
			c.observer.log.ErrorContext(ctx, "work behind the answer failed", slog.String("method", c.Method), slog.String("error", err.Error()))
		}
	}
}

// Detach lets a call go on after its handler, which has handed the connection to
// other code and returns nil. The context left carries the call's request id and
// span, never ends by itself, and holds nothing of the request. The caller must call
// end once, with the call's error or nil: it writes the one log line and records the
// duration.
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
