package rpc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/rpc"
)

// Requests hold memory until they have ended, on both faces: beyond an organization's share they are refused with 429,
// beyond all memory with 503, and small ones never.
func TestBodiesHoldMemory(t *testing.T) {
	const body = 100 << 10 // 36 KiB of it are charged.
	begun, leave := make(chan struct{}), make(chan struct{})
	b := setup(t, func(ctx context.Context, in *dynamicpb.Message) (*dynamicpb.Message, error) {
		if name := in.Get(in.Descriptor().Fields().ByName("user_name")).String(); strings.HasPrefix(name, "stay") {
			begun <- struct{}{}
			<-leave
		}
		return dynamicpb.NewMessage(echoContract.echo), nil
	}, func(o *rpc.Options) {
		o.MaxBody, o.Bodies = 1<<20, bodymemory.New(100<<10, 80<<10, 1)
	})
	text := strings.Repeat("x", body)
	overHTTP := func(organization, name string) int {
		code, _, _ := b.do(t, http.MethodPost, "/v1/echo/"+name, "svc", `{"parts":["`+text+`"]}`, "X-Organization-Id", organization)
		return code
	}
	overGRPC := func(method, organization, name string) codes.Code {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer svc", "x-organization-id", organization)
		in := dynamicpb.NewMessage(echoContract.echo)
		in.Set(in.Descriptor().Fields().ByName("user_name"), protoreflect.ValueOfString(name))
		in.Set(in.Descriptor().Fields().ByName("payload"), protoreflect.ValueOfBytes([]byte(`"`+text+`"`)))
		if method == "Watch" {
			stream, err := b.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/rpctest.EchoService/Watch")
			if err == nil {
				err = stream.SendMsg(in)
			}
			if err == nil {
				err = stream.CloseSend()
			}
			if err == nil {
				err = stream.RecvMsg(dynamicpb.NewMessage(echoContract.echo))
			}
			return status.Code(err)
		}
		return status.Code(b.conn.Invoke(ctx, "/rpctest.EchoService/"+method, in, dynamicpb.NewMessage(echoContract.echo)))
	}
	for name, tt := range map[string]struct {
		call          func(organization, name string)
		limited, full func() bool
	}{
		"HTTP": {
			func(organization, name string) { overHTTP(organization, name) },
			func() bool { return overHTTP("a", "ann") == http.StatusTooManyRequests },
			func() bool { return overHTTP("b", "ann") == http.StatusServiceUnavailable },
		},
		"gRPC": {
			func(organization, name string) { overGRPC("Echo", organization, name) },
			func() bool { return overGRPC("Echo", "a", "ann") == codes.ResourceExhausted },
			func() bool { return overGRPC("Echo", "b", "ann") == codes.Unavailable },
		},
		"a stream": {
			func(organization, name string) { overGRPC("Watch", organization, name) },
			func() bool { return overGRPC("Watch", "a", "ann") == codes.ResourceExhausted },
			func() bool { return overGRPC("Watch", "b", "ann") == codes.Unavailable },
		},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			for range 2 {
				go func() { tt.call("a", "stay"); ended <- struct{}{} }()
				<-begun
			}
			if !tt.limited() {
				t.Error("the organization has more than its share")
			}
			if !tt.full() {
				t.Error("another organization has what is not there")
			}
			if code, text, _ := b.do(t, http.MethodPost, "/v1/echo/ann", "svc", `{}`, "X-Organization-Id", "a"); code != http.StatusOK {
				t.Errorf("a small request: %d %s", code, text)
			}
			for range 2 {
				leave <- struct{}{}
				<-ended
			}
			if tt.limited() || tt.full() {
				t.Error("the memory of what has ended is still taken")
			}
		})
	}
}
