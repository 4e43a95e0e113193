package inference

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// call is one call to a provider as telemetry sees it: a client span and the
// metrics of the conventions. It lasts to the end of the answer. Content is
// never in it.
type call struct {
	span    oteltrace.Span
	label   label
	started time.Time
	// receipt of the vendor.
	receipt *provider.Receipt
}

// beginCall starts the telemetry of a call to a candidate.
func (x *execution) beginCall(ctx context.Context, c candidate) context.Context {
	operation := operationNames[x.request.Route.Operation]
	x.now = call{
		label:   label{provider: c.Provider, model: x.modelLabel(c), operation: operation},
		started: time.Now(),
		receipt: new(provider.Receipt),
	}
	ctx = provider.WithReceipt(ctx, x.now.receipt)
	ctx, x.now.span = x.Tracer.Start(ctx, operation+" "+c.Model, oteltrace.WithSpanKind(oteltrace.SpanKindClient))
	if x.now.span.IsRecording() {
		x.now.span.SetAttributes(attrOperation.String(operation), attrProvider.String(c.Provider), attrRequestModel.String(c.Upstream))
		if limit := x.request.Chat.MaxTokens; limit > 0 {
			x.now.span.SetAttributes(attrMaxTokens.Int(limit))
		}
	}
	return ctx
}

// modelLabel is a candidate's model in metrics: callers make names up at a provider
// without a list, of which only a bounded number has a place of its own.
func (x *execution) modelLabel(c candidate) string {
	if c.Unlisted && !x.Health.Known(c.Target) {
		return other
	}
	return c.Model
}

// failCall ends the telemetry of a call that failed, or that its caller left.
func (x *execution) failCall(ctx context.Context, kind string, ended time.Time) {
	l := x.now.label
	l.key, l.value = attrErrorType, kind
	x.metrics.called(ctx, l, ended.Sub(x.now.started))
	x.now.span.SetAttributes(attrErrorType.String(kind))
	x.now.span.SetStatus(codes.Error, kind)
	x.now.end(ended)
}

// endCall ends the telemetry of a call that was billed.
func (x *execution) endCall(ctx context.Context, b *bill) {
	u := b.report.Usage
	x.metrics.used(ctx, x.now.label, u)
	if x.now.span.IsRecording() {
		x.now.span.SetAttributes(attrResponseModel.String(x.served.Model),
			attrInputTokens.Int64(u.Prompt()), attrOutputTokens.Int64(u.Completion()), attrCacheRead.Int64(u.CacheRead))
		if x.finish != "" {
			x.now.span.SetAttributes(attrFinishReasons.StringSlice([]string{string(x.finish)}))
		}
	}
	if b.outcome != ledger.OutcomeCompleted {
		x.failCall(ctx, string(b.outcome), x.ended)
		return
	}
	x.metrics.called(ctx, x.now.label, x.ended.Sub(x.now.started))
	x.now.end(x.ended)
}

// end closes the span, if there is one.
func (c *call) end(at time.Time) {
	if c.span.IsRecording() {
		c.span.End(oteltrace.WithTimestamp(at))
	}
}
