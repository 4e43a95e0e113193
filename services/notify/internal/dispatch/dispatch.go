// Package dispatch sends to due recipients through their channel's transport and stores the outcomes. One engine
// serves one channel; replicas share the work by leases in the store.
//
// A recipient is leased before its attempt and settled after it, so a kill loses none. A recipient whose lease
// expired unsettled may have been reached: that attempt is logged as `unknown`, and later messages are marked as
// possible duplicates. internal/app creates the engines; internal/postgres implements the Store.
package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/notify/internal/channel"
)

// ErrRejected reports that the store will never accept a result.
var ErrRejected = errors.New("dispatch: the store rejects the result")

// LeaseMargin is how much longer than an attempt a lease has to be: the time to settle it.
const LeaseMargin = 5 * time.Second

// Leased is a recipient with a lease.
type Leased struct {
	ID           int64
	Fence        int64
	Notification uuid.UUID
	Organization string
	Subscription *uuid.UUID
	// Sealed is the channel's work, the same for all its recipients.
	Sealed []byte
	// Destination is the receiver's origin. Lane identifies the URL or channel there; empty for none. Both have
	// circuits, and messages of one lane may share a rate limit.
	Destination, Lane string
	// Granted reports that the lane's rate admitted it Late ago.
	Granted bool
	Late    time.Duration
	// Attempts is the number of earlier attempts.
	Attempts int
	// Doubtful reports that the response to an earlier attempt was lost, Lost that the replica which made the last
	// one ended without a result.
	Doubtful, Lost       bool
	DeliveryID           string
	AcceptedAt, Deadline time.Time
	// Updates is the notification that the message updates; nil if it is no update. Reference is where that is.
	Updates   *uuid.UUID
	Reference string
	// Held reports that an earlier message to the same recipient has not ended, Superseded that a newer one was
	// accepted.
	Held, Superseded bool
}

// Try is one attempt in the log.
type Try struct {
	Number    int
	Outcome   channel.Outcome
	StartedAt time.Time
	Took      time.Duration
}

// Result is the outcome of a leased recipient.
type Result struct {
	Leased Leased
	Step   channel.Step
	// Tries are the attempts to log, in order; none if nothing was sent.
	Tries []Try
	// Attempts and Doubtful are the new values.
	Attempts int
	Doubtful bool
	// Granted reports that the lane's rate admits it after the step's delay.
	Granted bool
	// Superseded reports that it ends unsent because a newer message was accepted. A Store may also find that when it
	// settles a result.
	Superseded bool
	// Duplicate reports that it was tried after an attempt whose response was lost.
	Duplicate bool
	// DeliveryID is that of the service that has the message; empty for none.
	DeliveryID string
}

// Claim is a request for due recipients.
type Claim struct {
	Channel channel.Name
	Count   int
	Lease   time.Duration
	// PassOver are organizations whose recipients are skipped.
	PassOver []string
}

// Store is the queue of recipients.
type Store interface {
	// Take leases due recipients, at most Count.
	Take(ctx context.Context, c Claim) ([]Leased, error)
	// NextDue returns the time until the next recipient is due.
	NextDue(ctx context.Context, name channel.Name) (time.Duration, error)
	// Settle stores results whose lease is still held, and reports for each whether it was. It returns ErrRejected if
	// a result cannot be stored. A recipient that would be tried again ends as superseded if a newer message was
	// accepted, unless another service has it; Settle marks its result. What was held by recipients that end becomes due.
	Settle(ctx context.Context, name channel.Name, results []Result) (held []bool, err error)
}

// Opener decrypts sealed work.
type Opener interface {
	Open(sealed []byte, owner string) ([]byte, error)
}

// Breaker pauses attempts to failing hosts and lanes.
type Breaker interface {
	Admit(ctx context.Context, host, lane string, lease time.Duration) (wait time.Duration)
	// Release ends an admitted attempt of which nothing was sent, so that another one may probe.
	Release(ctx context.Context, host, lane string)
	// Report returns the circuit that opened; empty for none. retryAfter is the pause that the receiver asked for.
	Report(ctx context.Context, host, lane string, hostFailed, laneFailed bool, retryAfter time.Duration) (opened string)
}

// Limiter limits the rate of each lane.
type Limiter interface {
	Reserve(ctx context.Context, lane string) (wait time.Duration)
	Hold(ctx context.Context, lane string, wait time.Duration)
	Held(ctx context.Context, lane string) bool
}

// Options configures an Engine.
type Options struct {
	Channel   channel.Name
	Transport channel.Transport
	Store     Store
	Opener    Opener
	Breaker   Breaker
	// Limiter may be nil for a channel without lanes.
	Limiter Limiter
	Policy  channel.Policy
	// OwnBreakers gives each organization its own breaker for a destination, because its requests determine the
	// responses. Otherwise the destination is the operator's, and all organizations share its state.
	OwnBreakers bool
	// Idempotent reports that repeating an attempt never creates a second message.
	Idempotent bool
	// InFlight is how many attempts run concurrently.
	InFlight int
	// Share is how many of them may be one organization's; zero for all.
	Share int
	// Timeout bounds an attempt; Lease is at least LeaseMargin longer.
	Timeout, Lease time.Duration
	Log            *slog.Logger
	Meter          metric.Meter
	Now            func() time.Time
	Random         func() float64
}
