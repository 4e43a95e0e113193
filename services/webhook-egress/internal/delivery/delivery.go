// Package delivery owns what a delivery is: what is accepted, its states and
// the decision that follows each attempt. The API enqueues and reads through
// [Service]; the dispatcher asks [Policy] what comes next; package postgres
// keeps what is decided here.
package delivery

import (
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Reasons of refusals, beside those that all services share.
const (
	ReasonPayloadTooLarge  apierr.Reason = "payload_too_large"
	ReasonHeaderNotAllowed apierr.Reason = "header_not_allowed"
	ReasonTargetNotAllowed apierr.Reason = "target_not_allowed"
	ReasonDeadlinePassed   apierr.Reason = "deadline_passed"
	ReasonAlreadyFinished  apierr.Reason = "already_finished"
	ReasonInFlight         apierr.Reason = "delivery_in_flight"
	ReasonEndpointDeleted  apierr.Reason = "endpoint_deleted"
	ReasonKeyReused        apierr.Reason = "idempotency_key_reused"
)

// Status is where a delivery stands.
type Status string

// The states. Queued, delivering and retrying are of a delivery that has not
// ended. Delivering is read from a running lease and never stored.
const (
	StatusQueued     Status = "queued"
	StatusDelivering Status = "delivering"
	StatusRetrying   Status = "retrying"
	StatusDelivered  Status = "delivered"
	StatusFailed     Status = "failed"
	StatusCancelled  Status = "cancelled"
	StatusExpired    Status = "expired"
)

// Ended reports whether nothing more will happen by itself.
func (s Status) Ended() bool {
	switch s {
	case StatusDelivered, StatusFailed, StatusCancelled, StatusExpired:
		return true
	case StatusQueued, StatusDelivering, StatusRetrying:
		return false
	}
	return false
}

// Target is where a flow leads: one host and port as seen by one organization.
type Target struct {
	Organization, Scheme, Host string
	Port                       int
}

// Flow is a target as the store knows it.
type Flow struct {
	ID           int64
	Organization string
	// Metered flows let deliveries out one claim at a time, none from memory: they
	// are parked, being tried again, or limited in rate.
	Metered bool
}

// Draft is a checked delivery that is about to be stored.
type Draft struct {
	ID           ID
	Organization string
	Owner        string
	Target       Target
	URL          string
	EventType    string
	SigningMode  string
	// Endpoint is nil for a delivery that names its URL itself; only a test has one here.
	Endpoint *JobEndpoint
	Test     bool
	// Body is sent and signed as it is.
	Body []byte
	// Headers are custom headers; Sealed those of them that carry a credential.
	Headers map[string]string
	Sealed  []byte
	// Key deduplicates within the organization; empty for none. Fingerprint
	// reports whether a repeat asks for the same thing.
	Key         string
	Fingerprint [32]byte
	MaxAttempts int
	// Deadline is zero for none.
	Deadline    time.Time
	Traceparent string
}

// Job is a leased delivery: all that an attempt needs.
type Job struct {
	ID           ID
	FlowID       int64
	LeaseSeq     int64
	Organization string
	URL          string
	EventType    string
	SigningMode  string
	Body         []byte
	Headers      map[string]string
	// HeadersUnreadable: the store holds headers that are none.
	HeadersUnreadable bool
	Sealed            []byte
	Traceparent       string
	Generation        int
	// Attempts were made before this one.
	Attempts    int
	MaxAttempts int
	// Takeovers is how often in a row a replica held the delivery and left no result.
	Takeovers int
	Deadline  time.Time
	// Host and Port are the flow's target.
	Host string
	Port int
	// Parked: its flow was when it was claimed; that it could be tried lets the flow go on.
	Parked bool
	// Admitted: the breaker let it through and has to hear what came of it.
	Admitted bool
	// Event is that which it was fanned out from; zero for none. Sealed is bound to it.
	Event ID
	// Endpoint is nil for a delivery that was enqueued by itself.
	Endpoint *JobEndpoint
	// Test: it counts neither for nor against its endpoint.
	Test bool
}

// JobEndpoint is what an attempt needs of the delivery's endpoint.
type JobEndpoint struct {
	ID ID
	// Secret and Previous are sealed for the endpoint's id; empty for none.
	Secret, Previous []byte
	// PreviousUntil is when the previous secret no longer signs.
	PreviousUntil time.Time
}

// Flow is the job's.
func (j *Job) Flow() Flow { return Flow{ID: j.FlowID, Organization: j.Organization} }

// SealedFor names what Sealed is bound to.
func (j *Job) SealedFor() string {
	if j.Event != (ID{}) {
		return j.Event.String()
	}
	return j.ID.String()
}

// Job makes the job of a draft that was stored with a lease.
func (d *Draft) Job(flow, leaseSeq int64) Job {
	return Job{
		ID: d.ID, FlowID: flow, LeaseSeq: leaseSeq, Organization: d.Organization, URL: d.URL,
		EventType: d.EventType, SigningMode: d.SigningMode, Body: d.Body, Headers: d.Headers, Sealed: d.Sealed,
		Traceparent: d.Traceparent, Generation: 1, MaxAttempts: d.MaxAttempts, Deadline: d.Deadline,
		Host: d.Target.Host, Port: d.Target.Port, Endpoint: d.Endpoint, Test: d.Test,
	}
}

// Record is the state of a delivery as it is shown.
type Record struct {
	ID                ID
	Organization      string
	Owner             string
	EndpointID        string
	EventID           string
	URL               string
	EventType         string
	SigningMode       string
	Key               string
	Status            Status
	Generation        int
	Attempts          int
	MaxAttempts       int
	LastResponseCode  int
	LastError         string
	NextAttempt       time.Time
	Deadline          time.Time
	Updated, Finished time.Time
	// Body is there when it was asked for.
	Body []byte
}

// Outcome of an attempt, as the audit has it.
type Outcome string

// The outcomes. Late is an answer that came after the attempt had been given
// up: it changed nothing.
const (
	OutcomeDelivered Outcome = "delivered"
	OutcomeRetry     Outcome = "retry"
	OutcomeFailed    Outcome = "failed"
	OutcomeGone      Outcome = "gone"
	OutcomeLate      Outcome = "late"
)

// Attempt is the audit of one request to a target.
type Attempt struct {
	Generation, Number int
	Outcome            Outcome
	URL                string
	RemoteIP           string
	ResponseCode       int
	ResponseBody       string
	Truncated          bool
	Error              Fault
	// RetryAfter is the header as it came.
	RetryAfter string
	Started    time.Time
	Timing     Timing
	// Next is when another attempt became due; zero when none did.
	Next time.Time
}

// Timing says where the time of an attempt went; zero for what did not happen.
// FirstByte and Total count from the start.
type Timing struct {
	DNS, Connect, TLS, FirstByte, Total time.Duration
}
