package dispatch

import (
	"context"
	"encoding/binary"
	"net/url"

	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

func targetOf(job *delivery.Job) breaker.Target {
	return breaker.Target{
		Organization: job.Organization, Host: job.Host, Port: job.Port, Flow: job.FlowID, Circuit: job.Circuit,
	}
}

// blocked reports whether a job has to wait for a circuit that did not admit it, and returns the step that follows.
func (e *Engine) blocked(job *delivery.Job) (delivery.Step, bool) {
	if job.Test {
		return delivery.Step{}, false
	}
	target := targetOf(job)
	if wait, blocked := e.o.Breaker.Blocked(target.OfHost()); blocked && !job.AdmittedByHost {
		step := delivery.Park(job, delivery.FaultBreakerOpen, wait)
		step.Host = true
		return step, true
	}
	if wait, blocked := e.o.Breaker.Blocked(target); blocked && !job.Admitted {
		return delivery.Park(job, delivery.FaultBreakerOpen, wait), true
	}
	return delivery.Step{}, false
}

// flowOrPath identifies a job's deliveries among those to its host: by their flow or, if other paths share the flow, by
// their path. The highest bit distinguishes a digest from the id of a flow.
func flowOrPath(job *delivery.Job) uint64 {
	if !job.SharesFlow() {
		return uint64(job.FlowID)
	}
	u, err := url.Parse(job.URL)
	if err != nil { // It was checked when the delivery was accepted.
		return uint64(job.FlowID)
	}
	path := delivery.TargetOf(job.Organization, u).Path
	return 1<<63 | binary.BigEndian.Uint64(path[:])
}

// reportOutcome reports the outcome of a job to the circuits of its flow and of its host. While the host's circuit is
// not closed, a failure to reach the host counts only there: once the host is back, the flow doesn't have to wait for
// its own circuit. If other paths share the flow, no failure counts there, since it would pause their deliveries, too.
func (e *Engine) reportOutcome(ctx context.Context, r *Result) (own, host breaker.Move) {
	if r.Attempt == nil || !r.Attempt.Error.OfTarget() {
		return e.void(ctx, &r.Job)
	}
	target, unreached := targetOf(&r.Job), delivery.HostFailed(r.Answer)
	toHost := breaker.Report{
		Event: breaker.Void, Began: r.Attempt.Started, Admitted: r.Job.AdmittedByHost, Flow: flowOrPath(&r.Job),
	}
	switch {
	case unreached:
		toHost.Event = breaker.Failed
	case r.Answer.Status != 0:
		toHost.Event = breaker.Passed
	}
	host = e.observed(ctx, breaker.Observation{Target: target.OfHost(), Report: toHost})
	toFlow := breaker.Report{Event: breaker.Passed, Began: r.Attempt.Started, Admitted: r.Job.Admitted}
	switch {
	case unreached && (host.State.Phase != breaker.Closed || r.Job.SharesFlow()):
		toFlow.Event = breaker.Void
	case r.Job.SharesFlow(): // An answer says nothing about the other paths.
	case delivery.TargetFailed(r.Answer):
		toFlow.Event, toFlow.RetryAfter = breaker.Failed, r.Answer.RetryAfter
	}
	return e.observed(ctx, breaker.Observation{Target: target, Report: toFlow}), host
}

// void reports that no request was made for a job, to each circuit that admitted the job.
func (e *Engine) void(ctx context.Context, job *delivery.Job) (own, host breaker.Move) {
	none := breaker.Report{Event: breaker.Void, Admitted: true}
	if job.Admitted {
		own = e.observed(ctx, breaker.Observation{Target: targetOf(job), Report: none})
	}
	if job.AdmittedByHost {
		host = e.observed(ctx, breaker.Observation{Target: targetOf(job).OfHost(), Report: none})
	}
	return own, host
}

func (e *Engine) observed(ctx context.Context, seen breaker.Observation) breaker.Move {
	if !e.o.Breaker.Note(seen) {
		return breaker.Move{Target: seen.Target}
	}
	move, err := e.observe.Do(ctx, seen)
	if err != nil { // The engine is stopping.
		return breaker.Move{Target: seen.Target}
	}
	if move.Changed {
		e.meters.moved(ctx, move)
	}
	return move
}
