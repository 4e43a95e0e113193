package channel

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Kind says what became of an attempt. Its text is the outcome on the wire.
type Kind string

// The kinds. All but OK, Gone and Permanent may be followed by a further attempt.
const (
	// OK: the recipient's side took it.
	OK Kind = "ok"
	// Gone: the recipient no longer exists. The transport has removed it.
	Gone Kind = "gone"
	// RetryAfter: not taken, and nothing says that it never will be.
	RetryAfter Kind = "retry_after"
	// Permanent: refused for good.
	Permanent Kind = "permanent"
	// Auth: our own credential was refused. An operator can mend that, so it is
	// tried again unless the outcome is final.
	Auth Kind = "auth"
	// Unknown: sent, and the answer was lost. It may have arrived.
	Unknown Kind = "unknown"
	// Handed: another service has it and is asked again later what became of it.
	// It is no attempt, and the log does not show it.
	Handed Kind = "handed"
)

// Class is the short code of a failure: a stable word such as `timeout` or
// `http_5xx`. Callers and metrics see it, so classes are few and hold no
// value of a request.
type Class string

// Classes that channels share.
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
)

// Outcome is what became of one attempt to reach one recipient. Make it with
// Delivered, Retry, Failed, Removed, Denied, Lost or HandedOver.
type Outcome struct {
	Kind  Kind
	Class Class
	// Status is the HTTP or SMTP status; zero without an answer.
	Status int
	// Detail is what the other side said, shortened, secrets left out; or empty.
	Detail string
	// After is the least wait before the next attempt; zero leaves it to the schedule.
	After time.Duration
	// Final: no further attempt, also where the kind allows one.
	Final bool
	// Truncated: the text was shortened to what the channel takes.
	Truncated bool
	// DeliveryID of the service that it was handed to; empty for none.
	DeliveryID string
	// HostFailed: the destination's host is in trouble, whatever the recipient.
	// The host's breaker counts it.
	HostFailed bool
}

// Delivered says that the recipient's side took it.
func Delivered(status int) Outcome { return Outcome{Kind: OK, Status: status} }

// Retry says that it was not taken and is to be tried again, after the wait or
// when the schedule says, whichever is later.
func Retry(class Class, status int, after time.Duration) Outcome {
	return Outcome{Kind: RetryAfter, Class: class, Status: status, After: after}
}

// Failed says that it is refused for good.
func Failed(class Class, status int, detail string) Outcome {
	return Outcome{Kind: Permanent, Class: class, Status: status, Detail: detail, Final: true}
}

// Removed says that the recipient is gone; the transport has removed it.
func Removed(class Class, status int) Outcome {
	return Outcome{Kind: Gone, Class: class, Status: status, Final: true}
}

// Denied says that our credential was refused. It is tried again unless final.
func Denied(class Class, status int, final bool) Outcome {
	return Outcome{Kind: Auth, Class: class, Status: status, Final: final}
}

// Lost says that it was sent and that the answer did not come.
func Lost(class Class) Outcome { return Outcome{Kind: Unknown, Class: class} }

// HandedOver says that a delivery of another service carries it from now on,
// which is to be asked again after a wait.
func HandedOver(delivery string, again time.Duration) Outcome {
	return Outcome{Kind: Handed, DeliveryID: delivery, After: again}
}

// Task is one attempt to reach one recipient.
type Task struct {
	Channel      Name
	Notification uuid.UUID
	Organization string
	// Recipient is the same for every attempt to reach it, and differs from all others.
	Recipient int64
	// Subscription of web push that it goes to; nil for other channels and for
	// one-off subscriptions.
	Subscription *uuid.UUID
	// Work is what the channel's Sender prepared, the same for all recipients.
	Work []byte
	// Number of the attempt, from 1.
	Number int
	// DeliveryID of an earlier HandedOver; empty for none.
	DeliveryID string
	// AcceptedAt is when the notification was; no attempt begins after Deadline.
	AcceptedAt, Deadline time.Time
}

// Transport makes attempts. Package dispatch calls it with a context that ends
// before the lease does, from many goroutines at once.
type Transport interface {
	Deliver(ctx context.Context, t Task) Outcome
}
