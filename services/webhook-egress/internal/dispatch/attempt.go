package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/retryafter"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// errAbandoned is the cause for which requests are cancelled that are still in flight at the end of the grace period.
var errAbandoned = errors.New("dispatch: abandoned by the drain")

// userAgent identifies the sender to receivers.
const userAgent = "Switchyard-Webhooks/1.0"

// maxResponseText is how much of a response body is kept, in bytes.
const maxResponseText = 1 << 10

// handle makes an attempt and settles it, and holds the job's slot until then. It stops when ctx ends; the request
// stops when sending ends, which may be earlier.
func (e *Engine) handle(ctx, sending context.Context, job delivery.Job) {
	defer func() { e.wakeIf(e.inflight.settled()) }()
	result, counts := e.request(ctx, sending, job)
	if !counts {
		return
	}
	result.Job.Body = nil // No longer needed, and the settle may take a while.
	result.Own, result.Host = e.reportOutcome(ctx, &result)
	e.conclude(ctx, result)
}

// request makes the attempt while it holds the target's share. An attempt that the drain cancelled does not count:
// its lease is given back.
func (e *Engine) request(ctx, sending context.Context, job delivery.Job) (result Result, counts bool) {
	defer func() { e.wakeIf(e.inflight.answered(job.Flow(), len(job.Body))) }()
	if sending.Err() != nil {
		e.void(ctx, &job)
		return result, false
	}
	result = e.protected(sending, job)
	if result.Attempt != nil && sending.Err() != nil && result.Attempt.ResponseCode == 0 {
		e.void(ctx, &job)
		return result, false
	}
	return result, true
}

// attempt decides whether a job may be sent, sends it, and decides what follows.
func (e *Engine) attempt(ctx context.Context, job delivery.Job) Result {
	now := e.o.Now()
	if step, unsettled := delivery.Unsettled(&job); unsettled {
		e.o.Log.ErrorContext(ctx, "delivery failed: every replica that held it ended without a result",
			slog.String("delivery_id", job.ID.String()), slog.String("organization", job.Organization), slog.Int("takeovers", job.Takeovers))
		return faulty(job, step, now)
	}
	if step, expired := delivery.Expired(&job, now); expired {
		return Result{Job: job, Step: step}
	}
	if step, blocked := e.blocked(&job); blocked {
		return Result{Job: job, Step: step}
	}
	out, step, ok := e.compose(ctx, &job, now)
	if !ok {
		return Result{Job: job, Step: step}
	}
	ctx, span := e.span(ctx, &job)
	defer span.End()
	addOurHeaders(ctx, out.request.Header, &job)
	reply := e.deliver(ctx, &job, out)
	hidden := newRedactor(out.hidden)
	if errors.Is(reply.Err, netguard.ErrProxy) {
		e.report(ctx, &job, delivery.Step{Fault: delivery.FaultTarget}, reply, hidden)
		return Result{Job: job, Step: e.o.Policy.Hold(&job, delivery.FaultEgressProxy)}
	}
	ended := e.o.Now()
	answer := delivery.Answer{
		Status: reply.Status, Fault: reply.Fault, RetryAfter: retryafter.Parse(reply.RetryAfter, ended, delivery.MaxDelay),
	}
	step = e.o.Policy.Next(&job, answer, ended, random())
	span.SetAttributes(attribute.String("switchyard.webhook.outcome", string(step.Outcome)), attribute.Int("http.response.status_code", reply.Status))
	if step.Fault != delivery.FaultNone {
		span.SetStatus(codes.Error, string(step.Fault))
	}
	e.report(ctx, &job, step, reply, hidden)
	return Result{Job: job, Step: step, Answer: answer, Attempt: audit(&job, step, reply, answer, now, hidden)}
}

// protected is attempt with a recovered panic. A panic uses up the attempt as an internal fault, so the delivery
// fails after the usual number of attempts. Its request may have been sent.
func (e *Engine) protected(ctx context.Context, job delivery.Job) (result Result) {
	began := e.o.Now()
	err := lifecycle.Protect(ctx, "webhook attempt", func() error {
		result = e.attempt(ctx, job)
		return nil
	})
	if err == nil {
		return result
	}
	e.o.Log.ErrorContext(ctx, "an attempt panicked", slog.String("delivery_id", job.ID.String()),
		slog.String("organization", job.Organization), slog.String("error", err.Error()))
	step := e.o.Policy.Next(&job, delivery.Answer{Fault: delivery.FaultInternal}, e.o.Now(), random())
	return faulty(job, step, began)
}

// faulty returns the result of an attempt that ended with an internal fault.
func faulty(job delivery.Job, step delivery.Step, began time.Time) Result {
	return Result{Job: job, Step: step, Attempt: &delivery.Attempt{
		Generation: job.Generation, Number: step.Attempts, Outcome: step.Outcome, URL: job.URL, Error: step.Fault, Started: began,
	}}
}

// maxReport bounds how much of an error is logged, in bytes: it may quote a response that is not HTTP.
const maxReport = 512

// report logs details of a failed request that only the operator may see.
func (e *Engine) report(ctx context.Context, job *delivery.Job, step delivery.Step, reply Reply, hidden *redactor) {
	level := slog.LevelDebug
	if step.Fault == delivery.FaultTarget {
		level = slog.LevelWarn
	}
	if reply.Err == nil || !e.o.Log.Enabled(ctx, level) {
		return
	}
	detail, _ := hidden.text(reply.Err.Error())
	attrs := []slog.Attr{
		slog.String("delivery_id", job.ID.String()), slog.String("organization", job.Organization),
		slog.String("fault", string(step.Fault)), slog.String("detail", delivery.Text(detail, maxReport)),
	}
	if refusal, ok := errors.AsType[*netguard.Refusal](reply.Err); ok && refusal.Addr.IsValid() {
		attrs = append(attrs, slog.String("address", refusal.Addr.String()))
	}
	e.o.Log.LogAttrs(ctx, level, "attempt failed", attrs...)
}

// addOurHeaders adds the service's own headers. They are set after the customer's, which therefore cannot replace
// them. A Content-Type that is there already is a house event's: customers can't set one.
func addOurHeaders(ctx context.Context, header map[string]string, job *delivery.Job) {
	if header["Content-Type"] == "" {
		header["Content-Type"] = "application/json"
	}
	header["User-Agent"] = userAgent
	header["X-Webhook-Id"] = job.ID.String()
	header["X-Webhook-Event"] = job.EventType
	header["X-Webhook-Attempt"] = strconv.Itoa(job.Attempts + 1)
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if parent := carrier["traceparent"]; parent != "" {
		header["Traceparent"] = parent
	}
}

// span continues the trace of the request that enqueued the delivery. Without one, the delivery's id is the trace id,
// so that all attempts share one trace.
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

func audit(
	job *delivery.Job, step delivery.Step, reply Reply, answer delivery.Answer, started time.Time, hidden *redactor,
) *delivery.Attempt {
	text, cut := hidden.responseText(reply.Body, !reply.Truncated)
	retryAfter := hidden.retryAfter(reply.RetryAfter, answer.RetryAfter > 0)
	return &delivery.Attempt{
		Generation: job.Generation, Number: step.Attempts, Outcome: step.Outcome, URL: job.URL,
		RemoteIP: reply.RemoteIP, ResponseCode: reply.Status, ResponseBody: text, Truncated: cut,
		Error: step.Fault, RetryAfter: delivery.Text(retryAfter, maxRetryAfter), Started: started, Timing: reply.Timing,
	}
}

// maxRetryAfter is how much of the header is kept, in bytes.
const maxRetryAfter = 64
