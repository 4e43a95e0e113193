package quota

import (
	"context"
	"errors"
	"time"
)

// ErrEpoch is the error of a Store whose books are not those that the caller knows, or not complete: replicas have yet
// to replay what they granted. An exchange tells more.
var ErrEpoch = errors.New("quota: the shared books are not complete")

// Store holds the books that replicas share, by one clock. Each method is atomic.
type Store interface {
	// Reserve books the first alternative of which all claims fit. If none does, it books nothing. It returns ErrEpoch
	// if the books are not those of the request's epoch, or are not trusted.
	Reserve(ctx context.Context, r Request) (Grant, error)
	// Exchange announces a replica and applies its report, once per sequence number.
	Exchange(ctx context.Context, r Report) (View, error)
	// Snapshots returns what is booked of subjects, in their order, and the store's time.
	Snapshots(ctx context.Context, epoch string, subjects []Subject) ([]Snapshot, time.Time, error)
}

// Request asks for one of several alternatives.
type Request struct {
	Epoch, Replica string
	// ID identifies the call among those in flight, Hold is when it ends by itself unless it is renewed.
	ID   string
	Hold time.Duration
	// Place is the caller's place in a queue; nil without a queue.
	Place        *Place
	Alternatives [][]Booking
}

// Booking is a claim, and what the replica would like to lease beside it.
type Booking struct {
	Claim

	Lease Amount
	// Own marks a limit of the caller itself, for which others in the queue need not wait.
	Own bool
	// Steady grants at the pace at which the limit never becomes full; see Window.paced.
	Steady bool
}

// Place is the place of a caller in a queue over all replicas.
type Place struct {
	Queue, Organization string
	// Waits reports whether the caller waits if it is refused.
	Waits bool
	// Served is what the organization was served as far as the replica knows, if the store doesn't. Cost is what this
	// call adds.
	Served, Cost float64
	// Joins: the organization did not wait on this replica. Idling earns nothing, so it starts where the one is that
	// waits with least; without any, where the one was that went last.
	Joins bool
	// Slack is how much more an organization may have been served than the one that has waited with least.
	Slack float64
	// Next is what the organization was served that waits next on this replica; negative if none does.
	Next float64
}

// Grant is the answer to a request.
type Grant struct {
	// Alternative is the index of the one that was booked, -1 if none was.
	Alternative int
	// Now is the store's time, whose second is the slot of the booking.
	Now time.Time
	// Leases are the amounts that were leased, by booking. They may be used until the slot ends.
	Leases []Amount
	// Short are the reasons why all alternatives were refused, in their order. A place behind others has
	// one, of booking -1.
	Short []Shortage
	// Used is what is booked afterwards, by alternative and booking, for those that were looked at.
	Used [][]Amount
	// Served is what the organization was served, Reached what was served to the one that went last.
	Served, Reached float64
}

// Shortage is why an alternative was refused.
type Shortage struct {
	Cause Cause
	// Booking is the index of the first one that is short.
	Booking int
	Wait    time.Duration
}

// Report is what a replica tells the others.
type Report struct {
	Replica, Epoch string
	// Candidate names the epoch that begins if the books were lost.
	Candidate string
	// Sequence numbers the reports of a replica. A report is applied only if its number is larger than all before.
	Sequence int64
	// Members are the replicas that this one knows of. They have to replay before books that begin are trusted.
	Members []string
	// Replayed: with this report, all that the replica granted in the last minute is in the books.
	Replayed bool
	Entries  []Entry
	Holds    []Hold
	News     []News
	Served   []Served
	Queues   []Waiting
}

// Entry changes what is booked in a slot.
type Entry struct {
	Subject Subject
	Slot    int64
	Amount  Amount
	// Replay marks what the replica granted before the books began, and Known what it knows that all replicas had. The
	// slot then holds what all replay, and no less than any of them knows: a replica that has died can't replay.
	Replay bool
	Known  Amount
}

// Hold renews a call in flight for a duration; it ends it if that is 0.
type Hold struct {
	Subject Subject
	ID      string
	For     time.Duration
}

// Served corrects what an organization was served.
type Served struct {
	Queue, Organization string
	Cost                float64
}

// Waiting says that a replica has no caller that waits in a queue any more.
type Waiting struct{ Queue string }

// View is the answer to a report.
type View struct {
	// Epoch names the books. If it isn't that of the report, nothing but the replica's presence was applied.
	Epoch string
	// Trusted: all replicas have replayed what they granted.
	Trusted bool
	// Members are the live replicas, sorted.
	Members []string
	Now     time.Time
}

// Snapshot is what is booked of a subject.
type Snapshot struct {
	Window  Window
	Outside Outside
}
