package telemetry_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	logsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricsv1 "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"

	"switchyard.dev/services/platform/telemetry"
)

// Nothing but traces is exported because there is an endpoint.
func TestSignalsAreExportedOnDemand(t *testing.T) {
	for _, test := range []struct {
		name          string
		vars          map[string]string
		traces        bool
		metrics, logs bool
	}{
		{name: "an endpoint alone", traces: true},
		{name: "metrics", vars: map[string]string{"OTEL_METRICS_EXPORTER": "otlp"}, traces: true, metrics: true},
		{name: "logs", vars: map[string]string{"OTEL_LOGS_EXPORTER": "otlp"}, traces: true, logs: true},
		{name: "all", vars: map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, traces: true, metrics: true, logs: true},
		{name: "no traces", vars: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "prometheus", "OTEL_LOGS_EXPORTER": "none"}},
		{name: "disabled", vars: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_METRICS_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			clearEndpoints(t)
			received := newCollector()
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+received.listen(t))
			for name, value := range test.vars {
				t.Setenv(name, value)
			}
			tel, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "gateway", Version: "v1.2.3", LogWriter: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			count(t, tel)
			_, span := tel.TracerProvider.Tracer("test").Start(t.Context(), "call")
			span.End()
			tel.Log.InfoContext(t.Context(), "a line")
			if body := scrape(t, tel); !strings.Contains(body, "calls_total") {
				t.Error("metrics can't be scraped")
			}
			if err := tel.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(received.traces) == 1; got != test.traces {
				t.Errorf("traces are exported: %t", got)
			}
			if got := len(received.metrics) == 1; got != test.metrics {
				t.Errorf("metrics are exported: %t", got)
			}
			if got := len(received.logs) == 1; got != test.logs {
				t.Errorf("logs are exported: %t", got)
			}
		})
	}
}

func TestMetricsAreExported(t *testing.T) {
	received := exporting(t, "OTEL_METRICS_EXPORTER")
	tel, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "gateway", LogWriter: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	count(t, tel)
	open := true
	if _, err := tel.MeterProvider.Meter("test").Int64ObservableGauge("backlog", metric.WithInt64Callback(func(context.Context, metric.Int64Observer) error {
		if !open {
			return io.ErrClosedPipe
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	if err := tel.StopMetrics(t.Context()); err != nil {
		t.Fatal(err)
	}
	open = false // As a pool that is closed in between.
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, scope := range (<-received.metrics).GetResourceMetrics()[0].GetScopeMetrics() {
		for _, m := range scope.GetMetrics() {
			if m.GetName() == "calls" && m.GetSum().GetDataPoints()[0].GetAsInt() == 3 {
				return
			}
		}
	}
	t.Error("the counter is not among the metrics")
}

// An exported line has the trace, the ids and the level of the written one.
func TestLinesAreExported(t *testing.T) {
	received := exporting(t, "OTEL_LOGS_EXPORTER")
	var lines bytes.Buffer
	tel, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "gateway", Version: "v1.2.3", LogWriter: &lines, LogLevel: slog.LevelInfo})
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.ContextWithSpanContext(telemetry.WithRequestID(t.Context(), "req-1"), parent)
	tel.Log.DebugContext(ctx, "below the level")
	tel.Log.With("organization", "acme").WarnContext(ctx, "refused", slog.Int("status", 403))
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	resource := (<-received.logs).GetResourceLogs()[0]
	if service := attributes(resource.GetResource().GetAttributes())["service.name"]; service != "gateway" {
		t.Errorf("service %q", service)
	}
	records := resource.GetScopeLogs()[0].GetLogRecords()
	if len(records) != 1 {
		t.Fatalf("%d lines: %v", len(records), records)
	}
	got, attrs := records[0], attributes(records[0].GetAttributes())
	if got.GetBody().GetStringValue() != "refused" || got.GetSeverityText() != "WARN" || trace.TraceID(got.GetTraceId()) != parent.TraceID() {
		t.Errorf("line %v", got)
	}
	if attrs["request_id"] != "req-1" || attrs["organization"] != "acme" {
		t.Errorf("attributes %v", attrs)
	}
	if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"msg":"refused"`) || !strings.Contains(text, `"request_id":"req-1"`) {
		t.Errorf("written: %s", text)
	}
}

func TestExportersAreChecked(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"OTEL_TRACES_EXPORTER", "zipkin", "OTEL_TRACES_EXPORTER: want otlp, none"},
		{"OTEL_METRICS_EXPORTER", "otlp,prometheus", "OTEL_METRICS_EXPORTER: want otlp, none, prometheus"},
		{"OTEL_LOGS_EXPORTER", "console", "OTEL_LOGS_EXPORTER: want otlp, none"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL: want grpc"},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: want grpc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			clearEndpoints(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(test.name, test.value)
			if _, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "gateway", LogWriter: io.Discard}); err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// A histogram's buckets name a trace that is recorded, to scrapers that ask for OpenMetrics.
func TestExemplars(t *testing.T) {
	clearEndpoints(t)
	received := newCollector()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+received.listen(t))
	tel, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "gateway", LogWriter: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	duration, err := tel.MeterProvider.Meter("test").Float64Histogram("duration", metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := tel.TracerProvider.Tracer("test").Start(t.Context(), "call")
	duration.Record(ctx, 0.2, metric.WithAttributes(attribute.String("outcome", "ok")))
	span.End()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	answer := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(answer, request)
	want := `trace_id="` + span.SpanContext().TraceID().String() + `"`
	if body := answer.Body.String(); !strings.Contains(body, want) {
		t.Errorf("no exemplar %s in\n%s", want, body)
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func count(t *testing.T, tel *telemetry.Telemetry) {
	t.Helper()
	calls, err := tel.MeterProvider.Meter("test").Int64Counter("calls")
	if err != nil {
		t.Fatal(err)
	}
	calls.Add(t.Context(), 3)
}

// exporting returns a collector to which a signal goes.
func exporting(t *testing.T, variable string) *collector {
	t.Helper()
	clearEndpoints(t)
	received := newCollector()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+received.listen(t))
	t.Setenv(variable, "otlp")
	return received
}

func attributes(all []*commonv1.KeyValue) map[string]string {
	texts := make(map[string]string)
	for _, one := range all {
		texts[one.GetKey()] = one.GetValue().GetStringValue()
	}
	return texts
}

// collector receives OTLP over gRPC.
type collector struct {
	traces  chan *tracev1.ExportTraceServiceRequest
	metrics chan *metricsv1.ExportMetricsServiceRequest
	logs    chan *logsv1.ExportLogsServiceRequest
}

func newCollector() *collector {
	return &collector{
		traces:  make(chan *tracev1.ExportTraceServiceRequest, 1),
		metrics: make(chan *metricsv1.ExportMetricsServiceRequest, 1),
		logs:    make(chan *logsv1.ExportLogsServiceRequest, 1),
	}
}

func (c *collector) listen(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	tracev1.RegisterTraceServiceServer(server, traceReceiver{into: c})
	metricsv1.RegisterMetricsServiceServer(server, metricReceiver{into: c})
	logsv1.RegisterLogsServiceServer(server, logReceiver{into: c})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

type traceReceiver struct {
	tracev1.UnimplementedTraceServiceServer
	into *collector
}

func (r traceReceiver) Export(_ context.Context, req *tracev1.ExportTraceServiceRequest) (*tracev1.ExportTraceServiceResponse, error) {
	r.into.traces <- req
	return &tracev1.ExportTraceServiceResponse{}, nil
}

type metricReceiver struct {
	metricsv1.UnimplementedMetricsServiceServer
	into *collector
}

func (r metricReceiver) Export(_ context.Context, req *metricsv1.ExportMetricsServiceRequest) (*metricsv1.ExportMetricsServiceResponse, error) {
	r.into.metrics <- req
	return &metricsv1.ExportMetricsServiceResponse{}, nil
}

type logReceiver struct {
	logsv1.UnimplementedLogsServiceServer
	into *collector
}

func (r logReceiver) Export(_ context.Context, req *logsv1.ExportLogsServiceRequest) (*logsv1.ExportLogsServiceResponse, error) {
	r.into.logs <- req
	return &logsv1.ExportLogsServiceResponse{}, nil
}
