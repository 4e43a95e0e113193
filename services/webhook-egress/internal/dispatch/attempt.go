package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// errAbandoned ends requests that are still under way when the grace is over.
var errAbandoned = errors.New("dispatch: abandoned by the drain")

// Delays between tries to settle while the database is away.
const minSettleRetry, maxSettleRetry = 50 * time.Millisecond, 2 * time.Second

// userAgent names the sender to receivers.
const userAgent = "Switchyard-Webhooks/1.0"

// maxResponseText is what is kept of an answer's body, in bytes.
const maxResponseText = 1 << 10

// work takes jobs until ctx ends; sending may end before.
func (e *Engine) work(ctx, sending context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-e.jobs:
			e.handle(ctx, sending, job)
		}
	}
}

// handle makes an attempt and settles it. The slot is held until then.
func (e *Engine) handle(ctx, sending context.Context, job delivery.Job) {
	defer e.give(delivery.Flow{ID: job.FlowID, Organization: job.Organization}, 1)
	if sending.Err() != nil {
		return
	}
	result := e.attempt(sending, job)
	if result.Attempt != nil && sending.Err() != nil && result.Attempt.ResponseCode == 0 {
		return // Cut by us, not by the target: the lease is given back, the attempt not counted.
	}
	result.Job.Body = nil // Not needed any more, and it may wait.
	e.conclude(ctx, result)
}

// conclude settles a result, as often as it takes: when the lease has passed in
// between, the fence tells.
func (e *Engine) conclude(ctx context.Context, result Result) {
	for pause := minSettleRetry; ; pause = min(2*pause, maxSettleRetry) {
		held, err := e.settle.Do(ctx, result)
		if err == nil {
			e.meters.settled(ctx, result, held)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-e.abandon:
			return
		case <-time.After(pause):
		}
	}
}

// flush settles a batch. A result that the store can't hold is given up alone,
// so that it keeps neither its slot nor the others; its lease runs out.
func (e *Engine) flush(ctx context.Context, results []Result) ([]bool, error) {
	held, err := e.flushAll(ctx, results)
	if !errors.Is(err, delivery.ErrRejected) {
		return held, err
	}
	held = make([]bool, len(results))
	if len(results) == 1 {
		return held, nil
	}
	for i := range results {
		one, err := e.flush(ctx, results[i:i+1])
		if err != nil {
			return nil, err
		}
		held[i] = one[0]
	}
	return held, nil
}

func (e *Engine) flushAll(ctx context.Context, results []Result) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	held, err := e.o.Store.Settle(ctx, results)
	if err != nil {
		e.o.Log.WarnContext(ctx, "settle failed", slog.Int("results", len(results)), slog.String("error", err.Error()))
	}
	return held, err
}

// attempt decides whether a job may be sent, sends it, and decides what follows.
func (e *Engine) attempt(ctx context.Context, job delivery.Job) Result {
	now := e.o.Now()
	if step, expired := delivery.Expired(&job, now); expired {
		return Result{Job: job, Step: step}
	}
	secrets := e.o.Secrets.Of(ctx, job.Organization)
	if len(secrets) == 0 {
		return Result{Job: job, Step: e.o.Policy.Hold(&job, delivery.FaultSigningSecretMissing)}
	}
	ctx, span := e.span(ctx, &job)
	defer span.End()
	header, hidden, err := e.headers(&job)
	reply := Reply{Fault: delivery.FaultHeadersUnreadable}
	if err == nil {
		maps.Copy(header, ourHeaders(ctx, &job))
		maps.Copy(header, signing.Headers(job.SigningMode, secrets, signing.Message{ID: job.ID.String(), At: now, Body: job.Body}))
		reply = e.o.Sender.Send(ctx, job.URL, header, job.Body)
	}
	answer := delivery.Answer{Status: reply.Status, Fault: reply.Fault, RetryAfter: reply.RetryAfter}
	step := e.o.Policy.Next(&job, answer, e.o.Now(), random())
	span.SetAttributes(attribute.String("switchyard.webhook.outcome", string(step.Outcome)), attribute.Int("http.response.status_code", reply.Status))
	if step.Fault != delivery.FaultNone {
		span.SetStatus(codes.Error, string(step.Fault))
	}
	e.report(ctx, &job, step, reply)
	return Result{Job: job, Step: step, Attempt: audit(&job, step, reply, now, hidden)}
}

// report is for the operator: what the target's owner is not told.
func (e *Engine) report(ctx context.Context, job *delivery.Job, step delivery.Step, reply Reply) {
	level := slog.LevelDebug
	if step.Fault == delivery.FaultTarget {
		level = slog.LevelWarn
	}
	if reply.Err == nil || !e.o.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("delivery_id", job.ID.String()), slog.String("organization", job.Organization),
		slog.String("fault", string(step.Fault)), slog.String("detail", reply.Err.Error()),
	}
	if refusal, ok := errors.AsType[*netguard.Refusal](reply.Err); ok && refusal.Addr.IsValid() {
		attrs = append(attrs, slog.String("address", refusal.Addr.String()))
	}
	e.o.Log.LogAttrs(ctx, level, "attempt failed", attrs...)
}

// headers are the customer's; hidden are the values that must not be kept.
func (e *Engine) headers(job *delivery.Job) (header map[string]string, hidden []string, err error) {
	header = make(map[string]string, len(job.Headers)+12)
	maps.Copy(header, job.Headers)
	if len(job.Sealed) == 0 {
		return header, nil, nil
	}
	if e.o.Opener == nil {
		return nil, nil, errors.New("dispatch: no key to open the headers with")
	}
	text, err := e.o.Opener.Open(job.Sealed, job.ID.String())
	if err != nil {
		return nil, nil, err
	}
	var credentials map[string]string
	if err := json.Unmarshal(text, &credentials); err != nil {
		return nil, nil, errors.New("dispatch: sealed headers are malformed")
	}
	for name, value := range credentials {
		header[name] = value
		hidden = append(hidden, value)
	}
	return header, hidden, nil
}

// ourHeaders come after the customer's, so that none of those can stand in for them.
func ourHeaders(ctx context.Context, job *delivery.Job) map[string]string {
	header := map[string]string{
		"Content-Type":      "application/json",
		"User-Agent":        userAgent,
		"X-Webhook-Id":      job.ID.String(),
		"X-Webhook-Event":   job.EventType,
		"X-Webhook-Attempt": strconv.Itoa(job.Attempts + 1),
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if parent := carrier["traceparent"]; parent != "" {
		header["Traceparent"] = parent
	}
	return header
}

// span continues the trace of the request that enqueued the delivery. Without
// one, the delivery's id is the trace id: all attempts are one trace then.
func (e *Engine) span(ctx context.Context, job *delivery.Job) (context.Context, trace.Span) {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": job.Traceparent})
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID(job.ID), SpanID: trace.SpanID(job.ID[8:]), Remote: true,
		}))
	}
	return e.o.Tracer.Start(ctx, "webhook.attempt", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("switchyard.webhook.delivery_id", job.ID.String()), attribute.Int("switchyard.webhook.attempt", job.Attempts+1)))
}

func audit(job *delivery.Job, step delivery.Step, reply Reply, started time.Time, hidden []string) *delivery.Attempt {
	text, cut := responseText(reply.Body, hidden)
	return &delivery.Attempt{
		Generation: job.Generation, Number: step.Attempts, Outcome: step.Outcome, URL: job.URL,
		RemoteIP: reply.RemoteIP, ResponseCode: reply.Status, ResponseBody: text, Truncated: cut || reply.Truncated,
		Error: step.Fault, RetryAfter: delivery.Text(reply.RetryAfter, maxRetryAfter), Started: started, Timing: reply.Timing,
	}
}

// maxRetryAfter is what is kept of the header, in bytes.
const maxRetryAfter = 64
