package channel

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Kind is the kind of an outcome. Its text is the outcome on the wire.
type Kind string

// The kinds. A further attempt may follow all but OK, Gone and Permanent.
const (
	// OK means that the receiver has accepted the message.
	OK Kind = "ok"
	// Gone means that the recipient no longer exists. The transport has removed it.
	Gone Kind = "gone"
	// RetryAfter means that the message was not accepted for now.
	RetryAfter Kind = "retry_after"
	// Permanent means that the message was refused for good.
	Permanent Kind = "permanent"
	// Auth means that the service's own credential was refused. An operator can correct that, so it is retried unless
	// the outcome is final.
	Auth Kind = "auth"
	// Unknown means that the message was sent and the response was lost. It may have arrived.
	Unknown Kind = "unknown"
	// Handed means that another service delivers the message and is polled later. It is no attempt, and the log does
	// not show it.
	Handed Kind = "handed"
	// NoPlace means that the attempt did not begin, because too many others were in flight. It is no attempt, and the log
	// does not show it.
	NoPlace Kind = "no_place"
)

// Class is the short code of a failure: a stable word such as `timeout` or `http_5xx`. Callers and metrics see it, so
// classes are few and hold no value of a request.
type Class string

// The classes that channels share.
const (
	ClassNone       Class = ""
	ClassDNS        Class = "dns_error"
	ClassConnect    Class = "connect_failed"
	ClassTLS        Class = "tls_failed"
	ClassTimeout    Class = "timeout"
	ClassReset      Class = "connection_reset"
	ClassTarget     Class = "target_not_allowed"
	ClassResponse   Class = "invalid_response"
	ClassRedirect   Class = "http_3xx"
	ClassClient     Class = "http_4xx"
	ClassServer     Class = "http_5xx"
	ClassRate       Class = "rate_limited"
	ClassCredential Class = "credential_refused" //nolint:gosec // the name of a failure
	ClassUnreadable Class = "work_unreadable"
	ClassMissing    Class = "not_configured"
	ClassLease      Class = "sender_lost"
	ClassExpired    Class = "expired"
	ClassPanic      Class = "internal"
	ClassSuperseded Class = "superseded"
)

// Outcome is the result of one attempt to reach one recipient. Delivered, Retry, Failed, Removed, Denied, Lost,
// HandedOver and Crowded create it; Unsent changes it.
type Outcome struct {
	Kind  Kind
	Class Class
	// Status is the HTTP or SMTP status; zero without a response.
	Status int
	// Detail is the receiver's text, shortened and without secrets; empty for none.
	Detail string
	// After is the least wait before the next attempt; zero leaves it to the schedule.
	After time.Duration
	// Final reports that no further attempt follows, even if the kind allows one.
	Final bool
	// Truncated reports whether the text was shortened to the channel's limit.
	Truncated bool
	// DeliveryID is that of the service that has the message; empty for none.
	DeliveryID string
	// Reference is where the message is now, as the channel names it; empty where an update has no need of it.
	Reference string
	// Replaced reports that an earlier message was changed in place.
	Replaced bool
	// HostFailed reports whether the destination's host could not be reached, or the operator's own server failed
	// whatever the recipient. The host's circuit counts it.
	HostFailed bool
	// Untested reports that the outcome says nothing about the destination: nothing was sent, or the transport panicked.
	// No circuit counts it.
	Untested bool
}

// LaneFailed reports whether the receiver did not take the message now but may take it later, as with a 429, a 408 or a
// 5xx. The lane's circuit counts it.
func (o Outcome) LaneFailed() bool { return o.Kind == RetryAfter || o.Kind == Unknown }

// Delivered returns the outcome of an accepted message.
func Delivered(status int) Outcome { return Outcome{Kind: OK, Status: status} }

// Retry returns the outcome of a message that was not accepted and is tried again, after the given wait or when the
// schedule says, whichever is later.
func Retry(class Class, status int, after time.Duration) Outcome {
	return Outcome{Kind: RetryAfter, Class: class, Status: status, After: after}
}

// Failed returns the outcome of a message that was refused for good.
func Failed(class Class, status int, detail string) Outcome {
	return Outcome{Kind: Permanent, Class: class, Status: status, Detail: detail, Final: true}
}

// Removed returns the outcome for a recipient that no longer exists; the transport has removed it.
func Removed(class Class, status int) Outcome {
	return Outcome{Kind: Gone, Class: class, Status: status, Final: true}
}

// Denied returns the outcome of a refused credential. It is retried unless final.
func Denied(class Class, status int, final bool) Outcome {
	return Outcome{Kind: Auth, Class: class, Status: status, Final: final}
}

// Lost returns the outcome of a message that was sent without a response.
func Lost(class Class) Outcome { return Outcome{Kind: Unknown, Class: class} }

// HandedOver returns the outcome of a message that another service delivers; it is polled again after a wait.
func HandedOver(delivery string, again time.Duration) Outcome {
	return Outcome{Kind: Handed, DeliveryID: delivery, After: again}
}

// Crowded returns the outcome of an attempt that found no place; it begins again after a wait.
func Crowded(again time.Duration) Outcome { return Unsent(Outcome{Kind: NoPlace, After: again}) }

// Unsent returns the outcome of an attempt that ended before anything was sent.
func Unsent(o Outcome) Outcome {
	o.Untested = true
	return o
}

// Task is one attempt to reach one recipient.
type Task struct {
	Channel      Name
	Notification uuid.UUID
	Organization string
	// Recipient identifies the recipient over all of its attempts.
	Recipient int64
	// Subscription is the registered device for web push; nil for other channels and for one-off subscriptions.
	Subscription *uuid.UUID
	// Work is what the channel's Sender prepared, the same for all recipients.
	Work []byte
	// Number is that of the attempt, from 1.
	Number int
	// DeliveryID is that of an earlier HandedOver; empty for none.
	DeliveryID string
	// Update reports that the work updates an earlier message. Reference is where that is, empty if it has not arrived
	// or its channel needs none.
	Update    bool
	Reference string
	// AcceptedAt is when the notification was accepted; no attempt begins after Deadline.
	AcceptedAt, Deadline time.Time
}

// Transport makes attempts. Package dispatch calls it concurrently, with a context that ends before the lease does.
type Transport interface {
	Deliver(ctx context.Context, t Task) Outcome
}
