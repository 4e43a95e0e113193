// Package dispatch takes recipients that are due, has their channel's transport
// try them, and writes down what came of it. One engine serves one channel;
// several replicas share the work by leases in the store.
//
// A recipient is leased before its attempt and settled after it, so a kill loses
// none. One whose lease ran out unsettled may have been reached: that attempt is
// logged as `unknown`, and what is sent after it is marked as a possible
// duplicate. internal/app makes the engines; internal/postgres is the Store.
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

// ErrRejected says that the store will never take a result.
var ErrRejected = errors.New("dispatch: the store rejects the result")

// LeaseMargin is how much longer than an attempt a lease has to be: the time to
// settle it.
const LeaseMargin = 5 * time.Second

// Leased is a recipient that is ours for the time of the lease.
type Leased struct {
	ID           int64
	Fence        int64
	Notification uuid.UUID
	Organization string
	Subscription *uuid.UUID
	// Sealed is the channel's work, the same for all its recipients.
	Sealed []byte
	// Destination is the origin that it goes to, for the breaker; Lane is what shares
	// one rate, empty for none.
	Destination, Lane string
	// Granted: the lane's rate let it go Late ago.
	Granted bool
	Late    time.Duration
	// Attempts before this one.
	Attempts int
	// Doubtful: the answer to an earlier one was lost. Lost: the sender of the
	// last one was.
	Doubtful, Lost       bool
	DeliveryID           string
	AcceptedAt, Deadline time.Time
}

// Try is one attempt as the log keeps it.
type Try struct {
	Number    int
	Outcome   channel.Outcome
	StartedAt time.Time
	Took      time.Duration
}

// Result is what is written of a leased recipient.
type Result struct {
	Leased Leased
	Step   channel.Step
	// Tries to log, in their order; none when nothing was sent.
	Tries []Try
	// Attempts and Doubtful from now on.
	Attempts int
	Doubtful bool
	// Granted: the lane's rate lets it go after the step's delay.
	Granted bool
	// Duplicate: it was tried after an attempt whose answer was lost.
	Duplicate bool
	// DeliveryID of the service that has it; empty for none.
	DeliveryID string
}

// Claim asks for due recipients.
type Claim struct {
	Channel channel.Name
	Count   int
	Lease   time.Duration
	// PassOver are organizations whose recipients are left where they are.
	PassOver []string
}

// Store is the queue.
type Store interface {
	// Take leases due recipients, at most so many.
	Take(ctx context.Context, c Claim) ([]Leased, error)
	// NextDue is the time until the next recipient is due.
	NextDue(ctx context.Context, name channel.Name) (time.Duration, error)
	// Settle writes results, of those whose lease still holds, and tells which.
	// It returns ErrRejected when a result can't be stored.
	Settle(ctx context.Context, name channel.Name, results []Result) (held []bool, err error)
}

// Opener opens sealed work.
type Opener interface {
	Open(sealed []byte, owner string) ([]byte, error)
}

// Breaker leaves destinations alone that nothing gets through to.
type Breaker interface {
	Admit(ctx context.Context, destination string, lease time.Duration) (wait time.Duration)
	Report(ctx context.Context, destination string, failed bool) (opened bool)
}

// Limiter spaces what goes by one lane.
type Limiter interface {
	Reserve(ctx context.Context, lane string) (wait time.Duration)
	Hold(ctx context.Context, lane string, wait time.Duration)
	Held(ctx context.Context, lane string) bool
}

// Options of an Engine.
type Options struct {
	Channel   channel.Name
	Transport channel.Transport
	Store     Store
	Opener    Opener
	Breaker   Breaker
	// Limiter may be nil for a channel without lanes.
	Limiter Limiter
	Policy  channel.Policy
	// OwnBreakers: each organization has a breaker of its own for a destination,
	// because its requests decide what comes back from there. Without it the
	// destination is the operator's, and all organizations share what is known of it.
	OwnBreakers bool
	// Idempotent: repeating an attempt never makes a second message.
	Idempotent bool
	// InFlight is how many attempts run at a time.
	InFlight int
	// Share is how many of them may be one organization's; zero for all.
	Share int
	// Timeout of an attempt, Lease of a recipient: LeaseMargin longer at least.
	Timeout, Lease time.Duration
	Log            *slog.Logger
	Meter          metric.Meter
	Now            func() time.Time
	Random         func() float64
}
