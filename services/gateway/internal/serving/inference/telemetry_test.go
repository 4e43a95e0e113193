package inference

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

func (o *observed) collect(t *testing.T) []metricdata.ScopeMetrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := o.metrics.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	return all.ScopeMetrics
}

// sums returns the points of counters.
func (o *observed) sums(t *testing.T) map[string][]metricdata.DataPoint[int64] {
	t.Helper()
	points := make(map[string][]metricdata.DataPoint[int64])
	for _, scope := range o.collect(t) {
		for _, m := range scope.Metrics {
			if data, ok := m.Data.(metricdata.Sum[int64]); ok {
				points[m.Name] = data.DataPoints
			}
		}
	}
	return points
}

// records returns how many values a histogram of seconds has.
func (o *observed) records(t *testing.T, name string) (n uint64) {
	t.Helper()
	for _, scope := range o.collect(t) {
		for _, m := range scope.Metrics {
			if data, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == name {
				for _, p := range data.DataPoints {
					n += p.Count
				}
			}
		}
	}
	return n
}

func (o *observed) points(t *testing.T) map[string][]attribute.Set {
	t.Helper()
	points := make(map[string][]attribute.Set)
	for _, scope := range o.collect(t) {
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
			" gen_ai.usage.cache_read.input_tokens=0 gen_ai.usage.cache_write.input_tokens=0" +
			` gen_ai.response.finish_reasons=["stop"]`,
	} {
		if got := reported(spans[i]); got != want {
			t.Errorf("span %d:\n got %s\nwant %s", i, got, want)
		}
	}
	points := o.points(t)
	for name, want := range map[string]int{
		metricInference: 2, metricOperation: 2, // One that failed and one that did not.
		metricCallInput: 1, metricCallOutput: 1, oldUsage: 2,
		metricUsageInput: 1, metricUsageOutput: 1, metricUsageCacheRead: 1, metricUsageCacheWrite: 1, metricUsageReasoning: 1,
		metricEmbeddings: 0, metricEmbeddedInput: 0,
	} {
		if n := len(points[name]); n != want {
			t.Errorf("%d series of %s, want %d", n, name, want)
		}
	}
}

// Calls have the metrics of the family that the conventions count them in, and as long as they are deprecated the former
// ones, too.
func TestMetricsByFamily(t *testing.T) {
	for operation, want := range map[provider.Operation][]string{
		provider.OperationChat:           {metricInference, metricCallInput, metricCallOutput, metricUsageInput},
		provider.OperationVision:         {metricInference, metricCallInput, metricCallOutput, metricUsageInput},
		provider.OperationImages:         {metricInference, metricCallInput, metricCallOutput, metricUsageInput},
		provider.OperationCompletions:    {metricInference, metricCallInput, metricCallOutput, metricUsageInput},
		provider.OperationSpeech:         {metricInference, metricCallInput, metricCallOutput, metricUsageInput},
		provider.OperationTranscriptions: {metricInference, metricCallInput, metricCallOutput, metricUsageInput},
		provider.OperationEmbeddings:     {metricEmbeddings, metricEmbeddedInput},
		provider.OperationModerations:    nil,
		provider.OperationRerank:         nil,
	} {
		t.Run(string(operation), func(t *testing.T) {
			o := observe(t, &script{name: "a"})
			calls := o.Engine.metrics.calls
			s := calls.of(label{provider: "a", host: "h", model: "m", operation: operationNames[operation]})
			calls.ended(t.Context(), s, time.Second)
			calls.used(t.Context(), s, s, &provider.Usage{Input: 1, Output: 1}, modalityText)
			points := o.points(t)
			want = append(want, metricOperation, oldUsage)
			for _, name := range []string{
				metricInference, metricEmbeddings, metricOperation, metricCallInput, metricCallOutput, metricEmbeddedInput, metricUsageInput, oldUsage,
			} {
				if got := len(points[name]) > 0; got != slices.Contains(want, name) {
					t.Errorf("%s: recorded is %v", name, got)
				}
			}
		})
	}
}

// Each token is counted in one modality: their sum is the whole input or output, whatever the vendor tells apart.
func TestTokensHaveOneModality(t *testing.T) {
	image := provider.Chat{Messages: []provider.Message{{Content: []provider.Part{{Text: "what is this?"}, {ImageURL: "https://example.org/a.png"}}}}}
	everything := provider.Usage{}
	for _, b := range provider.Buckets() {
		*b.Of(&everything) = 1 << b
	}
	for name, test := range map[string]struct {
		request       Request
		operation     provider.Operation
		usage         provider.Usage
		input, output string
	}{
		"text":                     {Request{}, provider.OperationChat, provider.Usage{Input: 1, CacheRead: 2, Output: 3, Reasoning: 4}, "text=3", "text=7"},
		"an image, told apart":     {Request{Chat: image}, provider.OperationChat, provider.Usage{Input: 1, ImageInput: 2, CacheRead: 4, Output: 8}, "image=2 text=1 unknown=4", "text=8"},
		"an image, not told apart": {Request{Chat: image}, provider.OperationVision, provider.Usage{Input: 1, CacheRead: 4, Output: 8}, "unknown=5", "text=8"},
		"an image to make":         {Request{}, provider.OperationImages, provider.Usage{Input: 1, ImageOutput: 2}, "text=1", "image=2 unknown=0"},
		"speech": {
			Request{Relay: &provider.Relay{}}, provider.OperationSpeech, provider.Usage{Input: 1, AudioOutput: 2}, "unknown=1", "audio=2 unknown=0",
		},
		"everything": {Request{Chat: image}, provider.OperationChat, everything, "audio=32 image=16 text=1 unknown=14", "audio=256 image=512 text=192"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observe(t, &script{name: "a"})
			calls := o.Engine.metrics.calls
			s := calls.of(label{provider: "a", host: "h", model: "m", operation: operationNames[test.operation]})
			test.request.Route.Operation = test.operation
			calls.used(t.Context(), s, s, &test.usage, test.request.modality())
			sums := o.sums(t)
			for metric, want := range map[string]string{metricUsageInput: test.input, metricUsageOutput: test.output} {
				var got []string
				var sum int64
				for _, p := range sums[metric] {
					of, _ := p.Attributes.Value(attrModality)
					got = append(got, fmt.Sprintf("%s=%d", of.AsString(), p.Value))
					sum += p.Value
				}
				slices.Sort(got)
				if joined := strings.Join(got, " "); joined != want {
					t.Errorf("%s: %s, want %s", metric, joined, want)
				}
				if whole := map[string]int64{metricUsageInput: test.usage.Prompt(), metricUsageOutput: test.usage.Completion()}[metric]; sum != whole {
					t.Errorf("%s: %d, want %d", metric, sum, whole)
				}
			}
		})
	}
}

// Sizes of answers that were cut short are apart from those of whole ones; what they used is counted with the rest.
func TestSizesOfFailedCallsAreApart(t *testing.T) {
	o := observe(t, &script{name: "a", steps: []step{text("1"), broken}})
	s, err := o.StreamChat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = read(s)
	points := o.points(t)
	for name, want := range map[string]bool{metricCallInput: true, metricCallOutput: true, metricUsageInput: false, oldUsage: false} {
		for _, set := range points[name] {
			if kind, failed := set.Value(attrErrorType); failed != want {
				t.Errorf("%s: error.type is %q", name, kind.AsString())
			}
		}
		if len(points[name]) == 0 {
			t.Errorf("no %s", name)
		}
	}
	if line := reported(o.spans.GetSpans()[0]); !strings.Contains(line, `gen_ai.response.finish_reasons=["error"]`) {
		t.Errorf("no finish reason of an answer that was cut short: %s", line)
	}
}

// The time between chunks is recorded for each of them, without an allocation.
func TestChunksDoNotAllocate(t *testing.T) {
	o := observe(t, &script{name: "a"})
	calls := o.Engine.metrics.calls
	s := calls.of(label{provider: "a", host: "h", model: "m", operation: "chat"})
	if n := testing.AllocsPerRun(100, func() { calls.chunk(t.Context(), s, time.Millisecond) }); n > 0 {
		t.Errorf("%v allocations a chunk", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		calls.first(t.Context(), s, time.Millisecond)
		calls.ended(t.Context(), s, time.Second)
		calls.used(t.Context(), s, s, &provider.Usage{Input: 9, Output: 9}, modalityText)
	}); n > 0 {
		t.Errorf("%v allocations a call", n)
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
		steps  []step
		leave  bool
		code   codes.Code
		kind   string
		chunks uint64 // after the first
	}{
		"whole":  {[]step{text("1"), text("2"), text("3"), end(used)}, false, codes.Unset, "", 2},
		"broken": {[]step{text("1"), broken}, false, codes.Error, "interrupted", 0},
		"left":   {[]step{text("1"), text("2"), end(used)}, true, codes.Error, "cancelled", 0},
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
			for name, want := range map[string]uint64{
				metricFirstChunk: 1, oldFirstChunk: 1, metricPerOutputChunk: test.chunks, oldPerOutputChunk: min(test.chunks, 1),
			} {
				if n := o.records(t, name); n != want {
					t.Errorf("%d values of %s, want %d", n, name, want)
				}
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
