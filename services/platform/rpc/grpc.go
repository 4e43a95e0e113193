package rpc

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/screen"
	"switchyard.dev/services/platform/telemetry"
)

// maxStreams is how many calls a connection may have in progress. gRPC runs at most as many handlers, even when a
// client resets calls rapidly.
const maxStreams = 1000

// minPing is the shortest time between two keepalive pings of a client, which may send them without a call, too. More
// frequent ones close its connection. Clients are asked for 30 seconds or more, which leaves room for late packets.
const minPing = 20 * time.Second

// maxAge is how old connections get: then clients are sent to a new one, which a balancer may lead to another replica.
// Calls in progress end as they would.
const maxAge = 5 * time.Minute

// newGRPC returns the gRPC face.
func (s *Server) newGRPC() *grpc.Server {
	options := []grpc.ServerOption{
		grpc.StreamInterceptor(s.chain.stream(FaceGRPC, s.refuseMessage, s.options.Bodies)),
		grpc.InTapHandle(s.admitStream),
		grpc.ForceServerCodecV2(newWireCodec(s.codec)),
		grpc.MaxRecvMsgSize(s.options.MaxBody),
		grpc.MaxHeaderListSize(headerBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(headerTime),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: maxAge}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
	}
	if s.options.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.options.TLS)))
	}
	return grpc.NewServer(options...)
}

// admitStream runs when the headers of a call have arrived, before any of its request is read. It refuses callers that
// may not call the method, and bounds the time in which the request of a unary call must be received and answered.
func (s *Server) admitStream(ctx context.Context, info *tap.Info) (context.Context, error) {
	if _, err := s.authenticate(info.FullMethodName, first(info.Header)); err != nil {
		e := apierr.From(err)
		ctx = telemetry.WithRequestID(ctx, RequestID(first(info.Header)(caller.HeaderRequest)))
		s.options.Log.LogAttrs(ctx, slog.LevelInfo, "refused", slog.String("method", screen.Path(info.FullMethodName, "/")),
			slog.Int("status", e.Kind.HTTPStatus()), slog.String("reason", string(e.Reason)), slog.String("error", e.Error()))
		return nil, e
	}
	if !s.unary[info.FullMethodName] {
		return ctx, nil
	}
	bounded, cancel := context.WithTimeoutCause(ctx, bodyTime+s.options.UnaryTimeout, errUnaryTimeout)
	context.AfterFunc(ctx, cancel)
	return bounded, nil
}

// first returns a lookup of a key's first value, empty if there is none.
func first(md metadata.MD) func(string) string {
	return func(name string) string {
		if values := md.Get(name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

// inChain makes the methods of a service read their request inside the chain. The caller is authenticated before the
// request is decoded, and a request that can't be decoded gets its status, log line and metrics like any other refusal.
func (s *Server) inChain(desc *grpc.ServiceDesc) *grpc.ServiceDesc {
	wrapped := *desc
	wrapped.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, method := range desc.Methods {
		handle := method.Handler
		method.Handler = func(impl any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return handle(impl, ctx, func(any) error { return nil }, s.chain.unary(FaceGRPC, read))
		}
		wrapped.Methods[i] = method
		s.unary["/"+desc.ServiceName+"/"+method.MethodName] = true
	}
	return &wrapped
}

// decode is the step that reads the request of a unary gRPC call, whose memory is charged until the call has ended.
func (s *Server) decode(ctx context.Context, call *Call, next func(context.Context) error) error {
	if call.read == nil {
		return next(ctx)
	}
	body := s.options.Bodies.Open(call.caller.Organization)
	defer body.Close()
	if err := receive(call.read, call.Message, &body); err != nil {
		return err
	}
	return next(ctx)
}

// receive reads a message through gRPC, and returns the error of wireCodec unchanged.
func receive(read func(any) error, m any, body *bodymemory.Hold) error {
	r := received{into: m, body: body, err: errUnread}
	if err := read(&r); err != nil {
		return err
	}
	return r.err
}

// errUnread is returned if gRPC used another codec than wireCodec.
var errUnread = errors.New("rpc: the message was not decoded")
