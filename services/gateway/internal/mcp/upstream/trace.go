package upstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// start begins the span of a call, as the conventions of OpenTelemetry for the protocol name it.
func (c *Client) start(ctx context.Context, server *toolserver.Server, tool string) (context.Context, trace.Span) {
	return c.startSpan(ctx, server, wire.MethodCallTool+" "+tool, []attribute.KeyValue{
		attribute.String("mcp.method.name", wire.MethodCallTool),
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", tool),
	})
}

// startQuery begins the span of a query. URIs are in no name.
func (c *Client) startQuery(ctx context.Context, server *toolserver.Server, q *Query) (context.Context, trace.Span) {
	name, attributes := q.Method, []attribute.KeyValue{attribute.String("mcp.method.name", q.Method)}
	switch q.Method {
	case wire.MethodGetPrompt:
		name += " " + q.Name
		attributes = append(attributes, attribute.String("gen_ai.prompt.name", q.Name))
	case wire.MethodReadResource:
		attributes = append(attributes, attribute.String("mcp.resource.uri", q.Name))
	}
	return c.startSpan(ctx, server, name, attributes)
}

// startSpan begins the span of a request to a server.
func (c *Client) startSpan(ctx context.Context, server *toolserver.Server, name string, attributes []attribute.KeyValue) (context.Context, trace.Span) {
	ctx, span := c.options.Tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	if span.IsRecording() {
		span.SetAttributes(c.peerAttributes(server)...)
	}
	return ctx, span
}

// peerAttributes says where a server is.
func (c *Client) peerAttributes(server *toolserver.Server) []attribute.KeyValue {
	if server.Command != "" {
		return []attribute.KeyValue{attribute.String("network.transport", "pipe")}
	}
	attributes := []attribute.KeyValue{attribute.String("network.transport", "tcp")}
	if at, err := c.guard.CheckSecureURL(server.URL); err == nil {
		name, port := host(at)
		number, _ := strconv.Atoi(port)
		attributes = append(attributes, attribute.String("server.address", name), attribute.Int("server.port", number))
	}
	return attributes
}

// annotate adds what is known once the session is open.
func annotate(span trace.Span, s *session, r *request) {
	span.SetAttributes(attribute.String("mcp.protocol.version", s.version), attribute.String("jsonrpc.request.id", strconv.FormatInt(r.id, 10)))
}

// finish ends the span of a call.
func finish(span trace.Span, result Result, err error) {
	defer span.End()
	kind := ""
	if answered, ok := errors.AsType[*wire.Error](err); ok {
		kind = strconv.FormatInt(answered.Code, 10)
		span.SetAttributes(attribute.String("rpc.response.status_code", kind))
	} else if e, ok := errors.AsType[*Error](err); ok {
		kind = string(e.Cause)
	} else if result.IsError {
		kind = "tool_error"
	}
	if kind != "" {
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, kind)
	}
}

// traceparent returns the W3C header of a span; empty if none is recorded, so that a caller's own trace stays inside.
func traceparent(_ context.Context, span trace.Span) string {
	at := span.SpanContext()
	if !span.IsRecording() || !at.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", at.TraceID(), at.SpanID(), at.TraceFlags()&trace.FlagsSampled)
}
