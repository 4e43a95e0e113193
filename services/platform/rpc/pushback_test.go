package rpc_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/dynamicpb"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

// A failed call tells clients with a retry policy whether to retry it, and when; both kinds of call do.
func TestFailedCallsSayWhenToRetry(t *testing.T) {
	var failure atomic.Pointer[apierr.Error]
	b := setup(t, func(context.Context, *dynamicpb.Message) (*dynamicpb.Message, error) { return nil, failure.Load() })
	ctx := outgoing(t.Context(), "authorization", "Bearer svc")
	after := func(e *apierr.Error, wait time.Duration) *apierr.Error { e.RetryAfter = wait; return e }
	for _, c := range []struct {
		name, want string
		err        *apierr.Error
	}{
		{"soon", "1000", apierr.Unavailable("away", nil)},
		{"no wait known", "", apierr.New(apierr.KindUpstream, apierr.ReasonUnavailable, "failed")},
		{"permanent with a temporary code", "-1", &apierr.Error{Kind: apierr.KindUnavailable, Reason: "no_provider", Class: apierr.ClassAuth, Text: "no key"}},
		{"invalid", "-1", apierr.Invalid("name", "is required")},
		{"limit, soon", "2500", after(apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "slow down"), 2500*time.Millisecond)},
		{"limit, later", "-1", after(apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "slow down"), time.Minute)},
	} {
		failure.Store(c.err)
		var trailer metadata.MD
		if err := b.conn.Invoke(ctx, "/rpctest.EchoService/Echo", dynamicpb.NewMessage(echoContract.echo), dynamicpb.NewMessage(echoContract.echo), grpc.Trailer(&trailer)); err == nil {
			t.Fatal("no error")
		}
		if got := strings.Join(trailer.Get("grpc-retry-pushback-ms"), " "); got != c.want {
			t.Errorf("%s: pushback %q, want %q", c.name, got, c.want)
		}
		stream, err := b.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/rpctest.EchoService/Watch")
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(dynamicpb.NewMessage(echoContract.echo)); err != nil {
			t.Fatal(err)
		}
		_ = stream.CloseSend()
		if err := stream.RecvMsg(dynamicpb.NewMessage(echoContract.echo)); err == nil {
			t.Fatal("no error of the stream")
		}
		if got := strings.Join(stream.Trailer().Get("grpc-retry-pushback-ms"), " "); got != c.want {
			t.Errorf("%s, streamed: pushback %q, want %q", c.name, got, c.want)
		}
	}
}

// A client may ping every 30 seconds, without a call, too, and keeps its connection until that is old.
func TestKeepaliveOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, &testkit.Buffer{}).GRPC()
		listener := bufconn.Listen(1 << 16)
		go func() { _ = server.Serve(listener) }()
		var dials atomic.Int32
		conn, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				dials.Add(1)
				return listener.DialContext(ctx)
			}),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}))
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait time.Duration
			want int32
		}{{0, 1}, {4 * time.Minute, 1}, {20 * time.Minute, 2}} { // The age of a connection is five minutes.
			time.Sleep(step.wait)
			if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if n := dials.Load(); n != step.want {
				t.Errorf("%s later the client has connected %d times, want %d", step.wait, n, step.want)
			}
		}
		_ = conn.Close()
		server.Stop()
	})
}
