package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"switchyard.dev/deploy/examples/client"
	"switchyard.dev/deploy/fakes/cert"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
)

// flaky fails calls and records when they came.
type flaky struct {
	gatewayv1.UnimplementedInferenceServiceServer
	webhooksv1.UnimplementedDeliveryServiceServer

	mu       sync.Mutex
	calls    []time.Time
	failures int
	code     codes.Code
	pushback string // empty for none
	got      metadata.MD
}

func (f *flaky) fail(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, time.Now())
	f.got, _ = metadata.FromIncomingContext(ctx)
	if len(f.calls) > f.failures {
		return nil
	}
	if f.pushback != "" {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", f.pushback))
	}
	return status.Error(f.code, "injected")
}

func (f *flaky) Chat(ctx context.Context, _ *gatewayv1.LlmRequest) (*gatewayv1.LlmResponse, error) {
	return &gatewayv1.LlmResponse{Content: strings.Repeat("a", 5<<20)}, f.fail(ctx)
}

func (f *flaky) ChatStream(_ *gatewayv1.LlmRequest, out grpc.ServerStreamingServer[gatewayv1.LlmChunk]) error {
	if err := f.fail(out.Context()); err != nil {
		return err
	}
	return out.Send(new(gatewayv1.LlmChunk))
}

func (f *flaky) Enqueue(ctx context.Context, _ *webhooksv1.EnqueueRequest) (*webhooksv1.EnqueueAccepted, error) {
	return new(webhooksv1.EnqueueAccepted), f.fail(ctx)
}

func (f *flaky) CancelDelivery(ctx context.Context, _ *webhooksv1.CancelDeliveryRequest) (*webhooksv1.DeliveryRecord, error) {
	return new(webhooksv1.DeliveryRecord), f.fail(ctx)
}

// connect serves f and returns an example's connection to it.
func connect(t *testing.T, f *flaky, options ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	gatewayv1.RegisterInferenceServiceServer(server, f)
	webhooksv1.RegisterDeliveryServiceServer(server, f)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	t.Setenv("GATEWAY_GRPC", listener.Addr().String())
	t.Setenv("SERVICE_TOKEN", "token")
	t.Setenv("ORGANIZATION_ID", "acme")
	conn, err := client.Connect("GATEWAY_GRPC")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// The reason of a refusal is found in an error that was wrapped; errors of gRPC itself have none.
func TestReason(t *testing.T) {
	refusal, err := status.New(codes.PermissionDenied, "the budget is used up").WithDetails(&errdetails.ErrorInfo{Reason: "budget_exceeded"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("chat: %w", refusal.Err()), "budget_exceeded"},
		{status.Error(codes.Unavailable, "no connection"), ""},
		{context.DeadlineExceeded, ""},
	} {
		if got := client.Reason(c.err); got != c.want {
			t.Errorf("%v: reason %q, want %q", c.err, got, c.want)
		}
	}
}

// The service config retries what is safe to retry, as often as it says, and heeds the server's word.
func TestRetries(t *testing.T) {
	type call func(ctx context.Context, conn *grpc.ClientConn) error
	chat := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := gatewayv1.NewInferenceServiceClient(conn).Chat(ctx, new(gatewayv1.LlmRequest))
		return err
	}
	stream := func(ctx context.Context, conn *grpc.ClientConn) error {
		chunks, err := gatewayv1.NewInferenceServiceClient(conn).ChatStream(ctx, new(gatewayv1.LlmRequest))
		if err == nil {
			_, err = chunks.Recv()
		}
		return err
	}
	enqueue := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := webhooksv1.NewDeliveryServiceClient(conn).Enqueue(ctx, new(webhooksv1.EnqueueRequest))
		return err
	}
	cancel := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := webhooksv1.NewDeliveryServiceClient(conn).CancelDelivery(ctx, new(webhooksv1.CancelDeliveryRequest))
		return err
	}
	for _, c := range []struct {
		name      string
		call      call
		failures  int
		code      codes.Code
		pushback  string
		wantCalls int
		want      codes.Code
	}{
		{"chat after a failure", chat, 1, codes.Unavailable, "1", 2, codes.OK},
		{"stream after a failure", stream, 1, codes.Unavailable, "1", 2, codes.OK},
		{"enqueue after failures", enqueue, 4, codes.Unavailable, "1", 5, codes.OK},
		{"chat fails for good", chat, 9, codes.Unavailable, "1", 3, codes.Unavailable},
		{"the policy's own wait", enqueue, 1, codes.Unavailable, "", 2, codes.OK},
		{"the server forbids it", chat, 1, codes.Unavailable, "-1", 1, codes.Unavailable},
		{"a limit", chat, 1, codes.ResourceExhausted, "", 1, codes.ResourceExhausted},
		{"a deadline", enqueue, 1, codes.DeadlineExceeded, "", 1, codes.DeadlineExceeded},
		{"no key", cancel, 1, codes.Unavailable, "", 1, codes.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &flaky{failures: c.failures, code: c.code, pushback: c.pushback}
			err := c.call(t.Context(), connect(t, f))
			if status.Code(err) != c.want || len(f.calls) != c.wantCalls {
				t.Errorf("%v after %d calls, want %s after %d", err, len(f.calls), c.want, c.wantCalls)
			}
			if token, org := f.got.Get("authorization"), f.got.Get("x-organization-id"); len(token) != 1 || token[0] != "Bearer token" || len(org) != 1 || org[0] != "acme" {
				t.Errorf("metadata %v %v", token, org)
			}
		})
	}
}

// A server's word to wait is heeded.
func TestRetryWaits(t *testing.T) {
	f := &flaky{failures: 1, code: codes.Unavailable, pushback: "300"}
	if _, err := webhooksv1.NewDeliveryServiceClient(connect(t, f)).Enqueue(t.Context(), new(webhooksv1.EnqueueRequest)); err != nil {
		t.Fatal(err)
	}
	if waited := f.calls[1].Sub(f.calls[0]); waited < 290*time.Millisecond {
		t.Errorf("retried after %s, want 300 ms", waited)
	}
}

// With TLS the server must show a certificate that is trusted.
func TestTLS(t *testing.T) {
	own, authority, err := cert.New(time.Now(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := cert.New(time.Now(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		authority []byte
		want      codes.Code
	}{"trusted": {authority, codes.OK}, "another": {other, codes.Unavailable}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(file, c.authority, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("GRPC_CA_FILE", file)
			conn := connect(t, new(flaky), grpc.Creds(credentials.NewServerTLSFromCert(&own)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := gatewayv1.NewInferenceServiceClient(conn).Chat(ctx, new(gatewayv1.LlmRequest)); status.Code(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// The service config names methods of the contract only: completions, reads, and those with an idempotency key.
func TestServiceConfigIsSafe(t *testing.T) {
	text, err := os.ReadFile("service-config.json")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		MethodConfig []struct {
			Name []struct{ Service, Method string }
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	_ = notifyv1.File_switchyard_notify_v1_notify_proto // In the registry by this link.
	methods := 0
	for _, c := range config.MethodConfig {
		for _, name := range c.Name {
			found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name.Service))
			if err != nil {
				t.Errorf("%s: %v", name.Service, err)
				continue
			}
			if name.Method == "" && name.Service == gatewayv1.InferenceService_ServiceDesc.ServiceName {
				continue
			}
			service, ok := found.(protoreflect.ServiceDescriptor)
			if !ok || service.Methods().ByName(protoreflect.Name(name.Method)) == nil {
				t.Errorf("%s/%s is no method", name.Service, name.Method)
				continue
			}
			reads := strings.HasPrefix(name.Method, "Get") || strings.HasPrefix(name.Method, "List")
			keyed := service.Methods().ByName(protoreflect.Name(name.Method)).Input().Fields().ByName("idempotency_key") != nil
			if !reads && !keyed {
				t.Errorf("%s/%s is retried, and has no idempotency key", name.Service, name.Method)
			}
			methods++
		}
	}
	if methods < 10 {
		t.Errorf("only %d methods", methods)
	}
}

func TestRequire(t *testing.T) {
	t.Setenv("EDGE_URL", "http://127.0.0.1:8080")
	t.Setenv("AI_KEY", "")
	if err := client.Require("EDGE_URL"); err != nil {
		t.Error(err)
	}
	if err := client.Require("EDGE_URL", "AI_KEY"); err == nil || !strings.HasPrefix(err.Error(), "AI_KEY must be set") {
		t.Errorf("%v, want the variable that is missing", err)
	}
}
