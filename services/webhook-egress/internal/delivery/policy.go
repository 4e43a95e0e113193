package delivery

import (
	"net/http"
	"time"

	"switchyard.dev/services/platform/retryafter"
)

// Fault is the short code of what went wrong in an attempt, or of what a
// delivery waits for. Callers see it; the error behind it stays in the service.
type Fault string

// The faults. The last five hold a delivery back, all others use up an attempt.
// FaultInternal is a fault of ours, which says nothing about the target.
const (
	FaultNone                 Fault = ""
	FaultDNS                  Fault = "dns_error"
	FaultConnect              Fault = "connect_failed"
	FaultReset                Fault = "connection_reset"
	FaultTLS                  Fault = "tls_failed"
	FaultTimeout              Fault = "timeout"
	FaultTarget               Fault = "target_not_allowed"
	FaultResponse             Fault = "invalid_response"
	FaultInternal             Fault = "internal"
	FaultRedirect             Fault = "http_3xx"
	FaultClient               Fault = "http_4xx"
	FaultServer               Fault = "http_5xx"
	FaultSigningSecretMissing Fault = "signing_secret_missing"
	FaultHeadersUnreadable    Fault = "sealed_headers_unreadable"
	FaultBreakerOpen          Fault = "breaker_open"
	FaultEndpointPaused       Fault = "endpoint_paused"
	FaultEgressProxy          Fault = "egress_proxy_unavailable"
)

// MaxDelay caps how far ahead an attempt is planned, by the schedule or by a Retry-After.
const MaxDelay = 24 * time.Hour

// jitterShare is how much longer than planned a delay may get, so that what
// failed together doesn't come back together.
const jitterShare = 0.2

// Policy is when and how often a delivery is tried again.
type Policy struct {
	// Schedule holds the delays after the first, second … failed attempt; the
	// last one repeats.
	Schedule []time.Duration
	// HoldDelay is how long a flow waits for something that is missing here.
	HoldDelay time.Duration
}

// Answer is what came of an attempt: a status, or a fault where there was none.
type Answer struct {
	Status     int
	Fault      Fault
	RetryAfter string
}

// Step is what follows.
type Step struct {
	// Status of the delivery from now on.
	Status  Status
	Outcome Outcome
	// Attempts of the generation so far.
	Attempts int
	Fault    Fault
	// Delay until the next attempt; of a held delivery, until its flow is tried again.
	Delay time.Duration
	// Held deliveries wait with their whole flow; no attempt was made.
	Held bool
	// Alone: it is held, its flow goes on.
	Alone bool
}

// Next decides what follows an attempt of job that got the answer at now.
// random is in [0, 1) and spreads the retries.
func (p Policy) Next(job *Job, a Answer, now time.Time, random float64) Step {
	attempts := job.Attempts + 1
	fault := a.Fault
	if fault == FaultNone {
		fault = faultOf(a.Status)
	}
	step := Step{Attempts: attempts, Fault: fault}
	switch {
	case fault == FaultNone:
		step.Status, step.Outcome = StatusDelivered, OutcomeDelivered
	case a.Status == http.StatusGone:
		step.Status, step.Outcome = StatusFailed, OutcomeGone
	case attempts >= job.MaxAttempts:
		step.Status, step.Outcome = StatusFailed, OutcomeFailed
	default:
		step.Status, step.Outcome = StatusRetrying, OutcomeRetry
		step.Delay = p.delay(attempts, a, now, random)
		step.Delay = untilDeadline(step.Delay, job.Deadline, now)
	}
	return step
}

// Hold is the step of a delivery that could not be tried for want of something
// that is ours to supply. It costs no attempt.
func (p Policy) Hold(job *Job, fault Fault) Step { return Park(job, fault, p.HoldDelay) }

// aloneDelay is how many times longer than a flow a delivery waits that is held
// alone: nothing but the operator can help it.
const aloneDelay = 12

// HoldAlone is the step where the reason is the delivery's own.
func (p Policy) HoldAlone(job *Job, fault Fault) Step {
	step := Park(job, fault, aloneDelay*p.HoldDelay)
	step.Alone = true
	return step
}

// Park is the step of a delivery that waits with its flow for a known time.
func Park(job *Job, fault Fault, delay time.Duration) Step {
	status := StatusQueued
	if job.Attempts > 0 {
		status = StatusRetrying
	}
	return Step{Status: status, Attempts: job.Attempts, Fault: fault, Delay: delay, Held: true}
}

// Expired reports whether no attempt may begin any more, and the step that follows.
func Expired(job *Job, now time.Time) (Step, bool) {
	if job.Deadline.IsZero() || now.Before(job.Deadline) {
		return Step{}, false
	}
	return Step{Status: StatusExpired, Attempts: job.Attempts}, true
}

// MaxTakeovers is how often in a row a delivery may be held by a replica that leaves no
// result, before it is given up as one that ends replicas.
const MaxTakeovers = 10

// Unsettled reports whether a delivery has been taken over too often, and the step that
// follows. The last attempt is the one whose replica ended; what became of it is unknown.
func Unsettled(job *Job) (Step, bool) {
	if job.Takeovers < MaxTakeovers {
		return Step{}, false
	}
	return Step{Status: StatusFailed, Outcome: OutcomeFailed, Attempts: job.Attempts + 1, Fault: FaultInternal}, true
}

// delay is the schedule's, or longer where the target asks for more time.
func (p Policy) delay(attempts int, a Answer, now time.Time, random float64) time.Duration {
	delay := p.Schedule[min(attempts, len(p.Schedule))-1]
	if asksToWait(a.Status) {
		delay = max(delay, retryafter.Parse(a.RetryAfter, now, MaxDelay))
	}
	delay += time.Duration(float64(delay) * jitterShare * random)
	return min(delay, MaxDelay)
}

// untilDeadline plans the attempt that would come too late for the deadline
// itself, where the delivery expires.
func untilDeadline(delay time.Duration, deadline, now time.Time) time.Duration {
	if deadline.IsZero() {
		return delay
	}
	return max(0, min(delay, deadline.Sub(now)))
}

// asksToWait lists the statuses whose Retry-After counts.
func asksToWait(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// TargetFailed reports whether an answer says that the target itself is in trouble,
// as opposed to what it thinks of one delivery.
func TargetFailed(a Answer) bool {
	if a.Fault == FaultInternal {
		return false
	}
	return a.Fault != FaultNone || a.Status < 100 || asksToWait(a.Status)
}

// When an endpoint that nothing but failures come from is reported, and when it
// is paused: so long after the first failure, and after so many.
const (
	FailingAfter     = 30 * time.Minute
	FailingFailures  = 10
	DisabledAfter    = 5 * 24 * time.Hour
	DisabledFailures = 50
)

// faultOf reads a status: 2xx is success, a redirect is a failure like others.
func faultOf(status int) Fault {
	switch {
	case status >= 200 && status < 300:
		return FaultNone
	case status >= 300 && status < 400:
		return FaultRedirect
	case status >= 400 && status < 500:
		return FaultClient
	case status >= 500 && status < 600:
		return FaultServer
	}
	return FaultResponse
}
