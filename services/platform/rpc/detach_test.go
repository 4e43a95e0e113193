package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/telemetry"
	"switchyard.dev/services/platform/testkit"
)

// The log line, the duration and the end of the span of a detached call are recorded when end is called, once, and not
// when its handler returns.
func TestDetachedCallIsRecordedAtItsEnd(t *testing.T) {
	log, spans, meters := &testkit.Buffer{}, tracetest.NewInMemoryExporter(), metricsdk.NewManualReader()
	server := newServer(t, log, func(o *rpc.Options) {
		o.Tracer = tracesdk.NewTracerProvider(tracesdk.WithSyncer(spans)).Tracer("")
		o.Meter = metricsdk.NewMeterProvider(metricsdk.WithReader(meters)).Meter("")
	})
	server.RegisterService(echoDesc(), answer(nil))
	lefts, ends := make(chan context.Context, 1), make(chan func(error), 1)
	server.Handle(http.MethodGet, "/v1/watch", "/rpctest.EchoService/Watch", func(_ http.ResponseWriter, r *http.Request) error {
		left, end := rpc.Detach(r.Context())
		lefts <- left
		ends <- end
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/watch", http.NoBody)
	r.Header.Set("Authorization", "Bearer svc")
	r.Header.Set("X-Request-Id", "req-7")
	server.Handler().ServeHTTP(httptest.NewRecorder(), r)
	cancel()
	left, end := <-lefts, <-ends

	recorded := func() (n uint64) {
		var all metricdata.ResourceMetrics
		if err := meters.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, point := range m.Data.(metricdata.Histogram[float64]).DataPoints {
					n += point.Count
				}
			}
		}
		return n
	}
	if log.String() != "" || len(spans.GetSpans()) != 0 || recorded() != 0 {
		t.Errorf("recorded too early: %s", log)
	}
	if left.Err() != nil || telemetry.RequestID(left) != "req-7" || !trace.SpanContextFromContext(left).IsValid() {
		t.Errorf("the context that is left: %v", left)
	}
	<-time.After(20 * time.Millisecond)
	end(apierr.Unavailable("away", errors.New("the store")))
	var line struct {
		Method, Caller, Reason string
		Status                 int
		Duration               int64 `json:"duration_us"`
	}
	lines := json.NewDecoder(strings.NewReader(log.String()))
	if err := lines.Decode(&line); err != nil {
		t.Fatal(err)
	}
	if line.Method != "/rpctest.EchoService/Watch" || line.Caller != "edge" {
		t.Errorf("the line is of %s by %s, want Watch by edge", line.Method, line.Caller)
	}
	if line.Status != 503 {
		t.Errorf("status %d, want 503", line.Status)
	}
	if line.Duration < 20_000 {
		t.Errorf("took %d microseconds, want 20 ms or more", line.Duration)
	}
	if err := lines.Decode(&line); !errors.Is(err, io.EOF) {
		t.Errorf("a second line: %s", log)
	}
	if len(spans.GetSpans()) != 1 || recorded() != 1 {
		t.Errorf("%d spans, %d durations", len(spans.GetSpans()), recorded())
	}
}

// Detach without a call in the context records nothing.
func TestDetachOutsideTheChain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	left, end := rpc.Detach(ctx)
	cancel()
	if end(nil); left.Err() != nil {
		t.Error(left.Err())
	}
}
