package rpc

import (
	"context"
	"fmt"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// local is a client connection that calls the registered unary methods in process, through the same interceptor as
// callers from the network. The generated gateway handlers use it: grpc-gateway's own in-process mode would skip
// interceptors, and a socket costs more than the call itself.
type local struct {
	interceptor grpc.UnaryServerInterceptor
	methods     map[string]localMethod
}

type localMethod struct {
	impl   any
	handle grpc.MethodHandler
}

func newLocal(interceptor grpc.UnaryServerInterceptor) *local {
	return &local{interceptor: interceptor, methods: make(map[string]localMethod)}
}

func (l *local) register(desc *grpc.ServiceDesc, impl any) {
	for _, method := range desc.Methods {
		l.methods["/"+desc.ServiceName+"/"+method.MethodName] = localMethod{impl, method.Handler}
	}
}

// Invoke calls a method. Outgoing metadata becomes incoming metadata and is removed from the outgoing context, so that
// the handler's own calls don't forward its caller's token.
func (l *local) Invoke(ctx context.Context, name string, args, reply any, opts ...grpc.CallOption) error {
	method, ok := l.methods[name]
	request, isMessage := args.(proto.Message)
	answer, isAnswer := reply.(proto.Message)
	if !ok || !isMessage || !isAnswer {
		return status.Errorf(codes.Unimplemented, "method %s not implemented", name)
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	ctx = metadata.NewIncomingContext(metadata.NewOutgoingContext(ctx, nil), md)
	var stream runtime.ServerTransportStream
	ctx = grpc.NewContextWithServerTransportStream(ctx, &stream)

	decode := func(into any) error {
		message, ok := into.(proto.Message)
		if !ok {
			return fmt.Errorf("decode: %T is not a protobuf message", into)
		}
		proto.Merge(message, request)
		return nil
	}
	resp, err := method.handle(method.impl, ctx, decode, l.interceptor)
	for _, opt := range opts {
		switch o := opt.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = stream.Header()
		case grpc.TrailerCallOption:
			*o.TrailerAddr = stream.Trailer()
		}
	}
	if err != nil {
		return err
	}
	if message, ok := resp.(proto.Message); ok {
		proto.Merge(answer, message)
	}
	return nil
}

// NewStream returns Unimplemented: on the JSON face, streams are served by handlers of their own.
func (*local) NewStream(_ context.Context, _ *grpc.StreamDesc, name string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Errorf(codes.Unimplemented, "method %s streams; it has no transcoded path", name)
}
