// Package delivery owns deliveries: which are accepted, their states, and the decision after each attempt. The API
// enqueues and reads through [Service]; the dispatcher asks [Policy] what comes next; package postgres stores the
// result.
package delivery

import (
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
)

// The reasons of refusals, in addition to those that all services share.
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

// ErrKeyReused refuses a resend, replay or batch whose idempotency key the same owner has used for another request. A
// single delivery or event counts as a repeat instead, and is marked as a mismatch.
var ErrKeyReused = apierr.New(apierr.KindUnprocessable, ReasonKeyReused,
	"idempotency_key: was used with another request; repeat that request, or send this one with another key")

// Status is the state of a delivery.
type Status string

// The states. Queued, delivering and retrying are of a delivery that has not ended. Delivering is derived from an
// active lease and never stored.
const (
	StatusQueued     Status = "queued"
	StatusDelivering Status = "delivering"
	StatusRetrying   Status = "retrying"
	StatusDelivered  Status = "delivered"
	StatusFailed     Status = "failed"
	StatusCancelled  Status = "cancelled"
	StatusExpired    Status = "expired"
)

// Ended reports whether the delivery has ended: no further attempt is made unless it is resent.
func (s Status) Ended() bool {
	switch s {
	case StatusDelivered, StatusFailed, StatusCancelled, StatusExpired:
		return true
	case StatusQueued, StatusDelivering, StatusRetrying:
		return false
	}
	return false
}

// Target is the destination of a flow: one path at one scheme, host and port, for one organization.
type Target struct {
	Organization, Scheme, Host string
	Port                       int
	// Path identifies the path of the URL. It is the zero PathID for deliveries with an ordering key: they share a flow,
	// because they are ordered across the host.
	Path PathID
}

// PathID is a digest of a path.
type PathID [16]byte

// Flow is the stored form of a target.
type Flow struct {
	ID           int64
	Organization string
	// Metered flows release deliveries through claims only, none from memory: they are parked, recovering, or
	// rate-limited.
	Metered bool
	// ManyPaths reports whether several paths of the organization share the flow.
	ManyPaths bool
}

// Draft is a checked delivery that is not stored yet.
type Draft struct {
	ID           ID
	Organization string
	Owner        string
	Target       Target
	URL          string
	EventType    string
	SigningMode  string
	// Endpoint is nil for a delivery that names its URL itself; only test deliveries have one here.
	Endpoint *JobEndpoint
	Test     bool
	// Body is sent and signed unchanged.
	Body []byte
	// Headers are the custom headers without credentials; Sealed holds those with credentials, encrypted.
	Headers map[string]string
	Sealed  []byte
	// Key is the idempotency key, unique within the organization and owner; empty for none. Fingerprint shows whether a
	// repeat asks for the same thing.
	Key         string
	Fingerprint [32]byte
	// AllOrNone means that if this draft is refused, no draft of its batch is stored.
	AllOrNone   bool
	MaxAttempts int
	// Deadline is the zero time for none.
	Deadline    time.Time
	Traceparent string
	// OrderingKey orders the deliveries of the flow that have the same one; empty for none.
	OrderingKey string
	// Count is the count of the call that made the draft; nil for none.
	Count *callcount.Count
}

// Job is a leased delivery with all that an attempt needs.
type Job struct {
	ID     ID
	FlowID int64
	// Circuit is the number of the flow's circuit.
	Circuit      int
	LeaseSeq     int64
	Organization string
	URL          string
	EventType    string
	SigningMode  string
	Body         []byte
	Headers      map[string]string
	// HeadersUnreadable reports whether the stored headers could not be decoded.
	HeadersUnreadable bool
	Sealed            []byte
	Traceparent       string
	Generation        int
	// Attempts is the number of earlier attempts.
	Attempts    int
	MaxAttempts int
	// Takeovers is how often in a row a replica held the delivery and left no result.
	Takeovers int
	Deadline  time.Time
	// Host and Port are the flow's target.
	Host string
	Port int
	// Parked reports whether the flow was parked when it was claimed; an attempt then releases the flow.
	Parked bool
	// Admitted and AdmittedByHost report whether the circuits of the flow and of the host counted the job. If so, its
	// outcome has to be reported to them.
	Admitted, AdmittedByHost bool
	// Event is the event that the delivery was fanned out from; zero for none. Sealed is then bound to it.
	Event ID
	// ManyPaths is the flow's.
	ManyPaths bool
	// Endpoint is nil for a direct delivery.
	Endpoint *JobEndpoint
	// Test marks a test delivery: it does not count for its endpoint's health.
	Test bool
	// OrderingKey is empty for none. Position is the place among the deliveries of the flow with the key: the job is the
	// first of them.
	OrderingKey string
	Position    int64
}

// JobEndpoint is the part of a delivery's endpoint that an attempt needs.
type JobEndpoint struct {
	ID ID
	// Secret is sealed for the endpoint's id; empty for none.
	Secret []byte
	// Earlier are the secrets that rotations replaced, the newest first.
	Earlier []EarlierSecret
	// Headers are the endpoint's headers by canonical name; each value is sealed for HeaderSealedFor.
	Headers map[string][]byte
	// Auth is the sealed form of an auth.Auth; empty for none.
	Auth []byte
	// Signatures are the schemes of package signing; empty for the default.
	Signatures []string
	// Moves is how often the endpoint had moved when a test was accepted. Only drafts have it.
	Moves int
}

// EarlierSecret is a secret that a rotation replaced. It signs beside the current one until its end.
type EarlierSecret struct {
	// Sealed is the secret, sealed for the endpoint's id.
	Sealed []byte
	Until  time.Time
}

// Flow returns the job's flow.
func (j *Job) Flow() Flow { return Flow{ID: j.FlowID, Organization: j.Organization} }

// SharesFlow reports whether the job's flow has deliveries to other paths, which the job's own answers say nothing about.
// Direct deliveries with an ordering key share one flow per host.
func (j *Job) SharesFlow() bool { return j.Endpoint == nil && (j.ManyPaths || j.OrderingKey != "") }

// SealedFor returns the id that Sealed is bound to.
func (j *Job) SealedFor() string {
	if j.Event != (ID{}) {
		return j.Event.String()
	}
	return j.ID.String()
}

// Job returns the job of a draft that was stored with a lease.
func (d *Draft) Job(s Stored) Job {
	return Job{
		ID: d.ID, FlowID: s.Flow.ID, LeaseSeq: s.LeaseSeq, Organization: d.Organization, URL: d.URL,
		EventType: d.EventType, SigningMode: d.SigningMode, Body: d.Body, Headers: d.Headers, Sealed: d.Sealed,
		Traceparent: d.Traceparent, Generation: 1, MaxAttempts: d.MaxAttempts, Deadline: d.Deadline,
		Host: d.Target.Host, Port: d.Target.Port, ManyPaths: s.Flow.ManyPaths, Endpoint: d.Endpoint, Test: d.Test,
		OrderingKey: d.OrderingKey, Position: s.Position,
	}
}

// Record is the state of a delivery as callers see it.
type Record struct {
	ID           ID
	Organization string
	Owner        string
	EndpointID   string
	EventID      string
	URL          string
	EventType    string
	SigningMode  string
	Key          string
	OrderingKey  string
	// FilterError is why the endpoint's filter could not be evaluated; empty when it could.
	FilterError       string
	Status            Status
	Generation        int
	Attempts          int
	MaxAttempts       int
	LastResponseCode  int
	LastError         string
	NextAttempt       time.Time
	Deadline          time.Time
	Updated, Finished time.Time
	// Body is set only when it was requested.
	Body []byte
}

// Outcome is the result of an attempt in the audit.
type Outcome string

// The outcomes. Late is a response that arrived after the lease was lost: it changed nothing.
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
	// RetryAfter is the header as received.
	RetryAfter string
	Started    time.Time
	Timing     Timing
	// Next is when the next attempt was planned for; zero when none was.
	Next time.Time
}

// Timing holds the durations of an attempt's phases; zero for a phase that did not happen. FirstByte and Total count
// from the start.
type Timing struct {
	DNS, Connect, TLS, FirstByte, Total time.Duration
}
