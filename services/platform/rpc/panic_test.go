package rpc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/dynamicpb"

	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/testkit"
)

// A panic of a function given to After ends neither the process nor the functions after it, on either face. It is
// logged once, with its stack, and the response is complete.
func TestPanicBehindTheAnswer(t *testing.T) {
	var second int
	b := setup(t, func(ctx context.Context, in *dynamicpb.Message) (*dynamicpb.Message, error) {
		rpc.After(ctx, func() { panic("bug behind the answer") })
		rpc.After(ctx, func() { second++ })
		return in, nil
	})
	if code, text, _ := b.do(t, http.MethodPost, "/v1/echo/ann", "svc", `{}`); code != http.StatusOK {
		t.Errorf("HTTP: %d %s", code, text)
	}
	in := dynamicpb.NewMessage(echoContract.echo)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer svc")
	for range 2 {
		if err := b.conn.Invoke(ctx, "/rpctest.EchoService/Echo", in, dynamicpb.NewMessage(echoContract.echo)); err != nil {
			t.Errorf("gRPC: %v", err)
		}
	}
	log := b.log.String()
	if n := strings.Count(log, "bug behind the answer"); n != 3 {
		t.Errorf("the panics of 3 calls are in the log %d times", n)
	}
	if !strings.Contains(log, "TestPanicBehindTheAnswer") {
		t.Error("the log has no stack")
	}
	if second != 3 {
		t.Errorf("what was put off behind it ran %d times of 3", second)
	}
}

// Panics are counted wherever in a call they occur.
func TestPanicsAreCounted(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	log := &testkit.Buffer{}
	server := newServer(t, log, func(o *rpc.Options) {
		o.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("")
	})
	server.RegisterService(echoDesc(), answer(func(ctx context.Context, _ *dynamicpb.Message) (*dynamicpb.Message, error) {
		rpc.After(ctx, func() { panic("behind") })
		panic("within")
	}))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer svc")
	if err := server.Local().Invoke(ctx, "/rpctest.EchoService/Echo", dynamicpb.NewMessage(echoContract.echo), dynamicpb.NewMessage(echoContract.echo)); err == nil {
		t.Error("a call that panicked has no error")
	}
	var found metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	var count int64
	for _, scope := range found.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "switchyard.rpc.panics" {
				count = sum.DataPoints[0].Value
			}
		}
	}
	if count != 2 {
		t.Errorf("%d panics counted of 2", count)
	}
}
