package telemetry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setup(t *testing.T, logs io.Writer) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "gateway", Version: "v1.2.3", LogWriter: logs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tel
}

func TestMetrics(t *testing.T) {
	tel := setup(t, io.Discard)
	setup(t, io.Discard) // A second one in the process must not conflict.
	calls, err := tel.MeterProvider.Meter("test").Int64Counter("provider.calls", metric.WithDescription("Calls made."))
	if err != nil {
		t.Fatal(err)
	}
	calls.Add(t.Context(), 3, metric.WithAttributes(attribute.String("outcome", "ok")))

	body := scrape(t, tel)
	for _, want := range []string{
		`provider_calls_total{outcome="ok"} 3`,
		`service_name="gateway"`,
		`service_version="v1.2.3"`,
		"go_goroutines ",
		"process_start_time_seconds ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	global, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range global {
		if strings.HasPrefix(family.GetName(), "provider_") || family.GetName() == "target_info" {
			t.Errorf("%s is in the global registry", family.GetName())
		}
	}
}

// A collector that fails is logged; the others' metrics are still served.
func TestMetricsSurviveACollector(t *testing.T) {
	var logs bytes.Buffer
	tel := setup(t, &logs)
	tel.Registry.MustRegister(broken{prometheus.NewDesc("broken", "Fails.", nil, nil)})
	if body := scrape(t, tel); !strings.Contains(body, "go_goroutines ") {
		t.Error("one collector took the rest with it")
	}
	if !strings.Contains(logs.String(), "collector is down") {
		t.Errorf("logs = %s", logs.String())
	}
}

type broken struct{ desc *prometheus.Desc }

func (b broken) Describe(ch chan<- *prometheus.Desc) { ch <- b.desc }
func (b broken) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(b.desc, io.ErrUnexpectedEOF)
	ch <- prometheus.NewInvalidMetric(b.desc, downError{})
}

type downError struct{}

func (downError) Error() string { return "collector is down" }

func scrape(t *testing.T, tel *telemetry.Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// Without an endpoint the caller's trace is propagated unchanged, including its sampled flag, and no span is recorded.
func TestTracesPassThrough(t *testing.T) {
	clearEndpoints(t)
	tel := setup(t, io.Discard)
	arrived := propagation.MapCarrier{
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b", "baggage": "k=v",
	}
	ctx := tel.Propagator.Extract(t.Context(), arrived)
	ctx, span := tel.TracerProvider.Tracer("test").Start(ctx, "call")
	defer span.End()
	sent := propagation.MapCarrier{}
	tel.Propagator.Inject(ctx, sent)
	if diff := cmp.Diff(arrived, sent); diff != "" {
		t.Errorf("headers (-arrived +sent):\n%s", diff)
	}
	if span.IsRecording() {
		t.Error("the span records")
	}
	_, root := tel.TracerProvider.Tracer("test").Start(t.Context(), "root")
	if root.IsRecording() || root.SpanContext().IsValid() {
		t.Error("a root span was made")
	}
}

func TestTracesAreExported(t *testing.T) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Run(variable, func(t *testing.T) {
			clearEndpoints(t)
			received := newCollector()
			t.Setenv(variable, "http://"+received.listen(t))
			tel, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "gateway", Version: "v1.2.3", LogWriter: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			ctx := trace.ContextWithSpanContext(t.Context(), parent)
			_, span := tel.TracerProvider.Tracer("test").Start(ctx, "call")
			span.End()
			if err := tel.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := (<-received.traces).GetResourceSpans()[0]
			attrs := map[string]string{}
			for _, kv := range got.GetResource().GetAttributes() {
				attrs[kv.GetKey()] = kv.GetValue().GetStringValue()
			}
			if attrs["service.name"] != "gateway" || attrs["service.version"] != "v1.2.3" {
				t.Errorf("resource = %v", attrs)
			}
			one := got.GetScopeSpans()[0].GetSpans()[0]
			if one.GetName() != "call" || trace.TraceID(one.GetTraceId()) != parent.TraceID() {
				t.Errorf("span = %v", one)
			}
		})
	}
}

// An unreachable collector must not block the process.
func TestShutdownIsBounded(t *testing.T) {
	clearEndpoints(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	tel, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "gateway", LogWriter: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	_, span := tel.TracerProvider.Tracer("test").Start(t.Context(), "call")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := tel.Shutdown(ctx); err == nil {
		t.Error("the lost span went unreported")
	}
}

func TestSetupRefusesBadVariables(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "no-equals-sign")
	if _, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "gateway"}); err == nil {
		t.Error("want an error")
	}
}

func TestInstall(t *testing.T) {
	tel := setup(t, io.Discard)
	if otel.GetMeterProvider() == tel.MeterProvider {
		t.Fatal("Setup touched the globals")
	}
	tel.Install()
	if otel.GetTracerProvider() != tel.TracerProvider || otel.GetMeterProvider() != tel.MeterProvider {
		t.Error("the providers are not installed")
	}
	fields := slices.Sorted(slices.Values(otel.GetTextMapPropagator().Fields())) // in no particular order
	if diff := cmp.Diff([]string{"baggage", "traceparent", "tracestate"}, fields); diff != "" {
		t.Errorf("propagator (-want +got):\n%s", diff)
	}
}

func clearEndpoints(t *testing.T) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
}
