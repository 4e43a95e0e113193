package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/rpc"
)

// Names of OpenTelemetry's semantic conventions for the Model Context Protocol (status "development",
// version 0.1.0 of open-telemetry/semantic-conventions-genai).
const (
	metricDuration = "mcp.server.operation.duration"

	attrMethod    = attribute.Key("mcp.method.name")
	attrVersion   = attribute.Key("mcp.protocol.version")
	attrTool      = attribute.Key("gen_ai.tool.name")
	attrPrompt    = attribute.Key("gen_ai.prompt.name")
	attrOperation = attribute.Key("gen_ai.operation.name")
	attrID        = attribute.Key("jsonrpc.request.id")
	attrErrorType = attribute.Key("error.type")
	attrTransport = attribute.Key("network.transport")

	// other is the label of values whose number is unbounded.
	other = "_OTHER"
)

// maxTools is how many names of tools are labels of metrics; servers choose them.
const maxTools = 200

var durationBuckets = []float64{.001, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}

// metrics are the instruments of the face.
type metrics struct {
	duration metric.Float64Histogram

	mu    sync.Mutex
	tools map[string]bool
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	duration, err := meter.Float64Histogram(metricDuration, metric.WithUnit("s"),
		metric.WithDescription("Time of one request of the Model Context Protocol, to the end of its answer."),
		metric.WithExplicitBucketBoundaries(durationBuckets...))
	if err != nil {
		return nil, fmt.Errorf("mcp: instruments: %w", err)
	}
	return &metrics{duration: duration, tools: make(map[string]bool)}, nil
}

// label returns the name of a tool as a label.
func (m *metrics) label(tool string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.tools[tool] && len(m.tools) >= maxTools {
		return other
	}
	m.tools[tool] = true
	return tool
}

// methods are those that are labels; callers may invent others.
var methods = map[string]bool{
	wire.MethodDiscover: true, wire.MethodInitialize: true, wire.MethodPing: true, wire.MethodListTools: true, wire.MethodCallTool: true,
	wire.MethodListResources: true, wire.MethodListTemplates: true, wire.MethodReadResource: true, wire.MethodListPrompts: true,
	wire.MethodListen: true, wire.MethodSetLevel: true, wire.MethodGetPrompt: true, wire.MethodComplete: true,
	wire.MethodGetTask: true, wire.MethodUpdateTask: true, wire.MethodCancelTask: true,
	wire.MethodSubscribe: true, wire.MethodUnsubscribe: true,
}

func (x *exchange) method() string {
	if methods[x.message.Method] {
		return x.message.Method
	}
	return other
}

// start begins the request's span: a child of what the caller names in _meta, and a link to the call over HTTP, which is
// its parent otherwise.
func (x *exchange) start(ctx context.Context) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	parent := propagation.TraceContext{}.Extract(context.WithoutCancel(trace.ContextWithSpanContext(ctx, trace.SpanContext{})), metaCarrier(x.meta))
	if named := trace.SpanContextFromContext(parent); named.IsValid() {
		options = append(options, trace.WithLinks(trace.LinkFromContext(ctx)))
		ctx = trace.ContextWithRemoteSpanContext(ctx, named)
	}
	name := x.method()
	if x.name != "" {
		name += " " + x.name
	}
	ctx, span := x.handler.Tracer.Start(ctx, name, options...)
	if span.IsRecording() {
		span.SetAttributes(attrMethod.String(x.method()), attrVersion.String(x.version), attrID.String(string(x.message.ID)), attrTransport.String("tcp"))
		switch {
		case x.name != "" && x.message.Method == wire.MethodGetPrompt:
			span.SetAttributes(attrPrompt.String(x.name))
		case x.name != "":
			span.SetAttributes(attrTool.String(x.name), attrOperation.String("execute_tool"))
		}
	}
	return ctx, span
}

// finish ends the span and records the request's duration.
func (x *exchange) finish(ctx context.Context, span trace.Span) {
	labels := []attribute.KeyValue{attrMethod.String(x.method()), attrTransport.String("tcp")}
	if x.known {
		labels = append(labels, attrTool.String(x.handler.metrics.label(x.name)), attrOperation.String("execute_tool"))
	}
	rpc.Annotate(ctx, slog.String("mcp_method", x.method()))
	if x.failure != "" {
		rpc.Annotate(ctx, slog.String("mcp_error", x.failure))
		labels = append(labels, attrErrorType.String(x.failure))
		span.SetAttributes(attrErrorType.String(x.failure))
		span.SetStatus(codes.Error, x.failure)
	}
	x.handler.metrics.duration.Record(ctx, time.Since(x.started).Seconds(), metric.WithAttributes(labels...))
	span.End()
}

// metaCarrier lets the W3C propagator read _meta.
type metaCarrier map[string]json.RawMessage

// Get implements propagation.TextMapCarrier.
func (c metaCarrier) Get(key string) string {
	text, _ := wire.Text(c[key])
	return text
}

// Set implements propagation.TextMapCarrier.
func (metaCarrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (metaCarrier) Keys() []string { return []string{wire.MetaTraceParent, wire.MetaTraceState} }
