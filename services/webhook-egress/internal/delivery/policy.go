package delivery

import (
	"net/http"
	"slices"
	"time"
)

// Fault is the short code of an attempt's failure, or of what a delivery waits for. Callers see it; the underlying
// error stays in the service.
type Fault string

// The faults. The last six hold a delivery back without using up an attempt; all others use one up. FaultInternal is
// the service's own failure, FaultToken that of the endpoint's token server: neither says anything about the target.
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
	FaultToken                Fault = "token_failed"
	FaultRedirect             Fault = "http_3xx"
	FaultClient               Fault = "http_4xx"
	FaultServer               Fault = "http_5xx"
	FaultSigningSecretMissing Fault = "signing_secret_missing"
	FaultHeadersUnreadable    Fault = "sealed_headers_unreadable"
	FaultBreakerOpen          Fault = "breaker_open"
	FaultEndpointPaused       Fault = "endpoint_paused"
	FaultEgressProxy          Fault = "egress_proxy_unavailable"
	FaultOrderingKey          Fault = "ordering_key_blocked"
)

// OfTarget reports whether an attempt with this fault, or without one, shows how the target is.
func (f Fault) OfTarget() bool { return f != FaultInternal && f != FaultToken }

// MaxDelay caps how far ahead an attempt is planned, by the schedule or by a Retry-After.
const MaxDelay = 24 * time.Hour

// jitterShare is the largest random extension of a delay, as a share of it, so that deliveries which failed together
// are not retried together.
const jitterShare = 0.2

// Policy holds when and how often a delivery is retried.
type Policy struct {
	// Schedule holds the delays after the first, second … failed attempt; the last one repeats.
	Schedule []time.Duration
	// HoldDelay is how long a flow waits for something that the service lacks, such as a signing secret.
	HoldDelay time.Duration
}

// Answer is the result of an attempt: a status, or a fault without one.
type Answer struct {
	Status int
	Fault  Fault
	// RetryAfter is how long the target asked to wait; zero if it didn't ask.
	RetryAfter time.Duration
}

// Step is the decision after an attempt.
type Step struct {
	// Status is the new status of the delivery.
	Status  Status
	Outcome Outcome
	// Attempts is the number of attempts of the generation so far.
	Attempts int
	Fault    Fault
	// Delay is the time until the next attempt; for a held delivery, until its flow is tried again.
	Delay time.Duration
	// Held reports that no attempt was made and the delivery waits with its whole flow.
	Held bool
	// Alone reports that a held delivery waits by itself, while its flow continues.
	Alone bool
	// Host reports whether a held delivery waits for its host's circuit rather than its flow's.
	Host bool
}

// Next decides what follows an attempt of job that ended with a at now. random is in [0, 1) and spreads the retries.
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
		step.Delay = p.delay(attempts, a, random)
		step.Delay = untilDeadline(step.Delay, job.Deadline, now)
	}
	return step
}

// Hold returns the step of a delivery that could not be attempted because the service lacks something. It costs no
// attempt.
func (p Policy) Hold(job *Job, fault Fault) Step { return Park(job, fault, p.HoldDelay) }

// aloneDelay is how many times longer than a flow a delivery waits that is held alone: only the operator can repair
// it.
const aloneDelay = 12

// HoldAlone is Hold for a reason that concerns only this delivery.
func (p Policy) HoldAlone(job *Job, fault Fault) Step {
	step := Park(job, fault, aloneDelay*p.HoldDelay)
	step.Alone = true
	return step
}

// Park returns the step of a delivery that waits with its flow for a known time.
func Park(job *Job, fault Fault, delay time.Duration) Step {
	status := StatusQueued
	if job.Attempts > 0 {
		status = StatusRetrying
	}
	return Step{Status: status, Attempts: job.Attempts, Fault: fault, Delay: delay, Held: true}
}

// Expired reports whether the deadline of job has passed, with the step that follows.
func Expired(job *Job, now time.Time) (Step, bool) {
	if job.Deadline.IsZero() || now.Before(job.Deadline) {
		return Step{}, false
	}
	return Step{Status: StatusExpired, Attempts: job.Attempts}, true
}

// MaxTakeovers is how often in a row a replica may hold a delivery without a result before the delivery fails: it
// probably crashes replicas.
const MaxTakeovers = 10

// Unsettled reports whether a delivery has been taken over too often, with the step that follows. The last attempt is
// the one whose replica ended; its outcome is unknown.
func Unsettled(job *Job) (Step, bool) {
	if job.Takeovers < MaxTakeovers {
		return Step{}, false
	}
	return Step{Status: StatusFailed, Outcome: OutcomeFailed, Attempts: job.Attempts + 1, Fault: FaultInternal}, true
}

// delay returns the schedule's delay, or a longer one where the target asks for it.
func (p Policy) delay(attempts int, a Answer, random float64) time.Duration {
	delay := p.Schedule[min(attempts, len(p.Schedule))-1]
	if asksToWait(a.Status) {
		delay = max(delay, a.RetryAfter)
	}
	delay += time.Duration(float64(delay) * jitterShare * random)
	return min(delay, MaxDelay)
}

// untilDeadline moves an attempt that would come after the deadline to the deadline itself, where the delivery
// expires.
func untilDeadline(delay time.Duration, deadline, now time.Time) time.Duration {
	if deadline.IsZero() {
		return delay
	}
	return max(0, min(delay, deadline.Sub(now)))
}

// asksToWait reports whether a Retry-After counts with a status.
func asksToWait(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// TargetFailed reports whether the result shows a failure of the target itself, rather than a refusal of one
// delivery.
func TargetFailed(a Answer) bool {
	if !a.Fault.OfTarget() {
		return false
	}
	return a.Fault != FaultNone || a.Status < 100 || asksToWait(a.Status)
}

// HostFailed reports whether an attempt shows that its host can't be reached. Any HTTP answer shows that the host is
// alive, whatever its status.
func HostFailed(a Answer) bool {
	if a.Status != 0 {
		return false
	}
	return slices.Contains([]Fault{FaultDNS, FaultConnect, FaultReset, FaultTLS, FaultTimeout}, a.Fault)
}

// An endpoint without a success is reported as failing after FailingAfter and FailingFailures, and disabled after
// DisabledAfter and DisabledFailures. Times count from the first failure; both conditions have to hold.
const (
	FailingAfter     = 30 * time.Minute
	FailingFailures  = 10
	DisabledAfter    = 5 * 24 * time.Hour
	DisabledFailures = 50
)

// faultOf returns the fault of a status: 2xx is success, and a redirect is a failure.
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
