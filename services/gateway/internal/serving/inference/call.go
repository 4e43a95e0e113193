package inference

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// call is the telemetry of one call to a provider: a client span and the metrics of the conventions, until the end of
// the answer. It never contains content.
type call struct {
	span    oteltrace.Span
	series  *series
	started time.Time
	// receipt collects the vendor's id of the call.
	receipt *provider.Receipt
}

// beginCall starts the telemetry of a call to a candidate. streams reports whether a stream is asked for.
func (e *Engine) beginCall(ctx context.Context, r *Request, c *candidate, streams bool) (context.Context, call) {
	operation := operationNames[r.Route.Operation]
	made := call{
		series:  e.metrics.calls.of(label{provider: c.Provider, host: c.Host, model: e.modelLabel(c), operation: operation}),
		started: time.Now(),
		receipt: new(provider.Receipt),
	}
	ctx = provider.WithReceipt(ctx, made.receipt)
	ctx, made.span = e.Tracer.Start(ctx, operation+" "+c.Model, oteltrace.WithSpanKind(oteltrace.SpanKindClient))
	if made.span.IsRecording() {
		made.span.SetAttributes(attrOperation.String(operation), attrProvider.String(c.Host), attrConfigured.String(c.Provider), attrRequestModel.String(c.Upstream))
		made.span.SetAttributes(asked(&r.Chat, streams && r.events())...)
	}
	return ctx, made
}

// asked returns the attributes of what a request sets.
func asked(chat *provider.Chat, streams bool) (set []attribute.KeyValue) {
	if streams {
		set = append(set, attrStream.Bool(true))
	}
	if chat.MaxTokens > 0 {
		set = append(set, attrMaxTokens.Int(chat.MaxTokens))
	}
	if chat.Seed != nil {
		set = append(set, attrSeed.Int64(*chat.Seed))
	}
	for _, one := range []struct {
		key   attribute.Key
		value *float64
	}{
		{attrTemperature, chat.Temperature},
		{attrTopP, chat.TopP},
		{attrPresencePenalty, chat.PresencePenalty},
		{attrFrequencyPenalty, chat.FrequencyPenalty},
	} {
		if one.value != nil {
			set = append(set, one.key.Float64(*one.value))
		}
	}
	return set
}

// first records when the first content of a stream arrived.
func (c *call) first(ctx context.Context, m *metrics, at time.Time) {
	after := at.Sub(c.started)
	m.calls.first(ctx, c.series, after)
	if c.span.IsRecording() {
		c.span.SetAttributes(attrTimeToFirst.Float64(after.Seconds()))
	}
}

// modelLabel returns a candidate's model as a metric's label. At a provider without a list of models callers may invent
// names, so that only a bounded number of them has a label of its own.
func (e *Engine) modelLabel(c *candidate) string {
	if c.Unlisted && !e.Health.Known(c.Target) {
		return other
	}
	return c.Model
}

// spent counts what was billed. As in modelLabel, a model that callers may have invented has no label of its own.
func (e *Engine) spent(r *ledger.Report) {
	model := r.Model
	if !e.Health.Known(provider.Target{Provider: r.Provider, Model: model}) {
		model = other
	}
	e.metrics.spent(model, r)
}

// fail ends the telemetry of a call that failed, or that its caller cancelled.
func (c *call) fail(ctx context.Context, m *metrics, kind string, at time.Time) {
	m.calls.ended(ctx, m.calls.failed(c.series, kind), at.Sub(c.started))
	c.span.SetAttributes(attrErrorType.String(kind))
	c.span.SetStatus(codes.Error, kind)
	c.end(at)
}

// billed ends the telemetry of a call of a request whose answer was billed and ended for a reason, which may be empty.
func (c *call) billed(ctx context.Context, m *metrics, r *Request, b *bill, reason provider.FinishReason, at time.Time) {
	completed := b.outcome == ledger.OutcomeCompleted
	ended := c.series
	if !completed {
		ended = m.calls.failed(c.series, string(b.outcome))
	}
	m.calls.used(ctx, c.series, ended, &b.report.Usage, r.modality())
	if c.span.IsRecording() {
		c.span.SetAttributes(attrResponseModel.String(b.served.Model))
		c.span.SetAttributes(usageAttributes(c.series.family, b.report.Usage)...)
		if reason == "" && !completed && c.series.family == familyInference {
			reason = finishError
		}
		if reason != "" {
			c.span.SetAttributes(attrFinishReasons.StringSlice([]string{string(reason)}))
		}
	}
	if !completed {
		c.fail(ctx, m, string(b.outcome), at)
		return
	}
	m.calls.ended(ctx, c.series, at.Sub(c.started))
	c.end(at)
}

// usageAttributes returns the attributes of what a call used. Calls that generate nothing have only input.
func usageAttributes(f family, u provider.Usage) []attribute.KeyValue {
	input := attrInputTokens.Int64(u.Prompt())
	if f != familyInference {
		return []attribute.KeyValue{input}
	}
	return []attribute.KeyValue{
		input, attrOutputTokens.Int64(u.Completion()), attrReasoningTokens.Int64(u.Reasoning),
		attrCacheRead.Int64(u.CacheRead), attrCacheWrite.Int64(u.CacheWrite + u.CacheWriteLong),
	}
}

// events reports whether a request that is served as a stream asks the vendor for one.
func (r *Request) events() bool { return r.Relay == nil || r.Relay.Stream }

// modality returns that of a request's whole input; unknown if it has several, or if the gateway does not read it.
func (r *Request) modality() modality {
	if r.Relay != nil && r.Route.Operation != provider.OperationCompletions {
		return modalityUnknown
	}
	for i := range r.Chat.Messages {
		for j := range r.Chat.Messages[i].Content {
			if part := &r.Chat.Messages[i].Content[j]; part.ImageURL != "" || part.File != nil {
				return modalityUnknown
			}
		}
	}
	return modalityText
}

// end closes the span, if it is recorded.
func (c *call) end(at time.Time) {
	if c.span.IsRecording() {
		c.span.End(oteltrace.WithTimestamp(at))
	}
}
