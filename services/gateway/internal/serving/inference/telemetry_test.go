package inference

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// observed is a bench whose telemetry is collected.
type observed struct {
	*bench
	spans   *tracetest.InMemoryExporter
	metrics *sdkmetric.ManualReader
}

func observe(t *testing.T, scripts ...*script) *observed {
	t.Helper()
	o := &observed{setup(t, nil, scripts...), tracetest.NewInMemoryExporter(), sdkmetric.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(o.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.metrics))
	t.Cleanup(func() { _ = tracers.Shutdown(context.Background()); _ = meters.Shutdown(context.Background()) })
	o.Tracer = tracers.Tracer("")
	var err error
	if o.Engine.metrics, err = newMetrics(meters.Meter("")); err != nil {
		t.Fatal(err)
	}
	return o
}

// reported returns a span as one line.
func reported(s tracetest.SpanStub) string {
	line := s.Name + " " + s.Status.Code.String()
	for _, a := range s.Attributes {
		line += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
	}
	return line
}

func (o *observed) points(t *testing.T) map[string][]attribute.Set {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := o.metrics.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	points := make(map[string][]attribute.Set)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					points[m.Name] = append(points[m.Name], p.Attributes)
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					points[m.Name] = append(points[m.Name], p.Attributes)
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					points[m.Name] = append(points[m.Name], p.Attributes)
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					points[m.Name] = append(points[m.Name], p.Attributes)
				}
			}
		}
	}
	return points
}

func TestEachCallHasASpan(t *testing.T) {
	o := observe(t, &script{name: "a", steps: failing(apierr.ClassServerError, 500)}, &script{name: "b", answer: good})
	r := request()
	r.Route.Operation, r.Chat.MaxTokens, r.Chat.TopP = provider.OperationChat, 9, new(0.5)
	if _, err := o.Chat(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	spans := o.spans.GetSpans()
	if len(spans) != 2 {
		t.Fatalf("%d spans, want one a call", len(spans))
	}
	for i, want := range []string{
		"chat a-1 Error gen_ai.operation.name=chat gen_ai.provider.name=host_a switchyard.provider=a gen_ai.request.model=a-up gen_ai.request.max_tokens=9 gen_ai.request.top_p=0.5 error.type=server_error",
		"chat b-1 Unset gen_ai.operation.name=chat gen_ai.provider.name=host_b switchyard.provider=b gen_ai.request.model=b-up gen_ai.request.max_tokens=9 gen_ai.request.top_p=0.5" +
			" gen_ai.response.model=b-1 gen_ai.usage.input_tokens=10 gen_ai.usage.output_tokens=20 gen_ai.usage.reasoning.output_tokens=0" +
			" gen_ai.usage.cache_read.input_tokens=0 gen_ai.usage.cache_creation.input_tokens=0" +
			` gen_ai.response.finish_reasons=["stop"]`,
	} {
		if got := reported(spans[i]); got != want {
			t.Errorf("span %d:\n got %s\nwant %s", i, got, want)
		}
	}
	points := o.points(t)
	if n := len(points[metricDuration]); n != 2 {
		t.Errorf("%d series of the duration, want one that failed and one that did not", n)
	}
	if n := len(points[metricTokens]); n != 2 {
		t.Errorf("%d series of tokens, want input and output", n)
	}
}

// The cost is counted by model, and models that callers invent share a label.
func TestCostIsCountedByModel(t *testing.T) {
	o := observe(t, &script{name: "a", answer: good})
	if _, err := o.Chat(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		o.Spent(&ledger.Report{Provider: "a", Model: fmt.Sprint("invented-", n), Cost: 1})
	}
	models := make(map[string]int)
	for _, set := range o.points(t)["switchyard.gateway.cost.usd"] {
		model, _ := set.Value("model")
		models[model.AsString()]++
	}
	if diff := cmp.Diff(map[string]int{"a-1": 1, other: 1}, models); diff != "" {
		t.Errorf("series by model (-want +got):\n%s", diff)
	}
}

func TestAStreamsSpanLastsToItsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		steps []step
		leave bool
		code  codes.Code
		kind  string
	}{
		"whole":  {[]step{text("1"), text("2"), text("3"), end(used)}, false, codes.Unset, ""},
		"broken": {[]step{text("1"), broken}, false, codes.Error, "interrupted"},
		"left":   {[]step{text("1"), text("2"), end(used)}, true, codes.Error, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observe(t, &script{name: "a", steps: test.steps})
			r := request()
			r.Route.Operation = provider.OperationChat
			s, err := o.StreamChat(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if len(o.spans.GetSpans()) != 0 {
				t.Error("the span ended before the stream")
			}
			if test.leave {
				s.Close()
			} else {
				_, _ = read(s)
			}
			spans := o.spans.GetSpans()
			if len(spans) != 1 || spans[0].Status.Code != test.code || spans[0].Status.Description != test.kind {
				t.Fatalf("spans %+v", spans)
			}
			if line := reported(spans[0]); !strings.Contains(line, " gen_ai.request.stream=true") || !strings.Contains(line, " gen_ai.response.time_to_first_chunk=") {
				t.Errorf("no stream: %s", line)
			}
			points := o.points(t)
			if len(points[metricFirstChunk]) != 1 || (len(points[metricPerOutputChunk]) == 1) != (name == "whole") {
				t.Errorf("chunks: %v, %v", points[metricFirstChunk], points[metricPerOutputChunk])
			}
		})
	}
}

// Neither content nor a key appears in telemetry, whatever fails.
func TestTelemetryHoldsNoContent(t *testing.T) {
	const word = "heliotrope"
	o := observe(t,
		&script{name: "a", steps: []step{{err: &provider.Error{Class: apierr.ClassAuth, Status: 401, Text: "bad key " + canary + " for " + word}}}},
		&script{name: "b", steps: []step{text(word), broken}})
	r := request()
	r.Route.Operation = provider.OperationChat
	r.Chat.Messages[0].Content[0].Text = word
	s, err := o.StreamChat(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = read(s)
	all := fmt.Sprintf("%+v %+v", o.spans.GetSpans(), o.points(t))
	if strings.Contains(all, word) || strings.Contains(all, canary) {
		t.Errorf("content or a key in %s", all)
	}
	if len(o.spans.GetSpans()) != 2 {
		t.Errorf("%d spans", len(o.spans.GetSpans()))
	}
}
