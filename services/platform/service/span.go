package service

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// innerTracers makes spans within a span that records, and no traces of their own: a worker's commands and the
// connections of a client are part of no request.
type innerTracers struct{ trace.TracerProvider }

// Tracer implements trace.TracerProvider.
func (p innerTracers) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return innerTracer{p.TracerProvider.Tracer(name, options...)}
}

type innerTracer struct{ trace.Tracer }

// Start implements trace.Tracer.
func (t innerTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, noop.Span{}
	}
	return t.Tracer.Start(ctx, name, options...)
}
