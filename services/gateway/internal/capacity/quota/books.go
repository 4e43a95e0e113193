package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const (
	// reserveTimeout bounds how long a call waits for the store. After a failure none waits until an exchange worked.
	reserveTimeout = 50 * time.Millisecond
	// holdTime is how long a call counts among the concurrent ones without being renewed.
	holdTime = 10 * time.Second
	// askAgain is how long the store is not asked about a subject that was full: other replicas give back, too.
	askAgain = 250 * time.Millisecond
	// retryAlone is when a replica without any part of a limit should be asked again.
	retryAlone = time.Second
)

// Options of Books. Zero values are replaced by the defaults that the fields state.
type Options struct {
	// Store holds the shared books; nil for a replica that is alone.
	Store Store
	Log   *slog.Logger // default: slog.Default()
	// Replica names this replica among the others; default: a random name.
	Replica string
	// Replicas is how many there are, as long as the store has never told. A replica that has not reached it for a
	// minute since it started has its part of so many. Default 4.
	Replicas int
	// MaxSubjects bounds the subjects that were used within a minute; default 8,192, which take 4 KiB each.
	MaxSubjects int
	// MaxWaiting bounds the callers that wait, MaxWaitingEach those of one organization; default 4,096 and 512.
	MaxWaiting, MaxWaitingEach int
}

func (o Options) withDefaults() Options {
	orElse := func(n *int, other int) {
		if *n <= 0 {
			*n = other
		}
	}
	orElse(&o.Replicas, 4)
	orElse(&o.MaxSubjects, 8192)
	orElse(&o.MaxWaiting, 4096)
	orElse(&o.MaxWaitingEach, 512)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Replica == "" {
		o.Replica = rand.Text()
	}
	return o
}

// Books reserves, settles and queues the calls of one replica. It is safe for concurrent use.
type Books struct {
	Options

	mu       sync.Mutex
	accounts map[Subject]*account
	queues   map[string]*queue
	// waiting is how many callers wait in all queues, and waitingOf how many of each organization.
	waiting   int
	waitingOf map[string]int
	freed     bool // something may have become free since the callers that wait asked last
	// flights are the reservations that need to be renewed: of concurrent calls, and of those that count on completion.
	flights map[*Reservation]struct{}
	calls   int64
	work    chan struct{} // an exchange should not wait for its time

	storeState

	outbox outbox
}

// storeState is how a replica stands with the store. Books.mu guards it.
type storeState struct {
	born  time.Time
	epoch string
	// ahead is how far the store's clock is ahead of this replica's.
	ahead time.Duration
	// counted is the epoch in which what organizations were served is counted.
	counted string
	// shared: the store's books are in reach and trusted.
	shared bool
	// failed is when a call last failed. A slow store is left alone for a moment.
	failed time.Time
	// trusted: the last exchange said that the books are complete, this replica's part of them included.
	trusted bool
	// outage numbers the times without them, from 1.
	outage int
	// part is the replica's part of the limits; it has none while members is 0.
	part    part
	members []string
}

// New returns Books without entries. The caller has to run Run.
func New(o Options) *Books {
	b := &Books{
		Options: o.withDefaults(), accounts: make(map[Subject]*account), queues: make(map[string]*queue), waitingOf: make(map[string]int),
		flights: make(map[*Reservation]struct{}), work: make(chan struct{}, 1), storeState: storeState{born: time.Now()}, outbox: newOutbox(),
	}
	if b.Store == nil {
		m := &Memory{alone: true}
		m.begin("alone", b.born)
		b.Store, b.epoch, b.shared, b.trusted, b.part = m, "alone", true, true, part{members: 1}
	}
	return b
}

// now returns the time by the store's clock.
func (b *Books) now() time.Time { return time.Now().Add(b.ahead) }

// TryReserve books a call, or returns a *RefusedError at once. It takes nothing from callers that wait in the same queue.
func (b *Books) TryReserve(ctx context.Context, d Demand) (*Reservation, error) {
	d.Wait = 0
	return b.Reserve(ctx, d)
}

// Reserve books a call, or waits until it can, for at most d.Wait. It returns a *RefusedError if the call may not be sent,
// ctx's error if that ends first, and another error for a malformed demand. The reservation has to be settled or
// cancelled. Without a limit, Reserve allocates nothing and calls nothing.
func (b *Books) Reserve(ctx context.Context, d Demand) (*Reservation, error) {
	if d.unlimited() {
		return unlimited, nil
	}
	return b.reserve(ctx, d)
}

func (b *Books) reserve(ctx context.Context, d Demand) (*Reservation, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if refusal := d.tooLarge(); refusal != nil {
		return nil, refusal
	}
	if d.Queue != "" {
		return b.queued(ctx, d)
	}
	r, refusal, err := b.try(ctx, d, nil)
	return result(r, refusal, err)
}

// result returns untyped nil errors.
func result(r *Reservation, refusal *RefusedError, err error) (*Reservation, error) {
	if refusal != nil {
		return nil, refusal
	}
	return r, err
}

// tooLarge returns the refusal of a call that no alternative can ever hold.
func (d *Demand) tooLarge() (refusal *RefusedError) {
	for i := range max(1, len(d.Alternatives)) {
		large := false
		claims, _ := d.claims(i)
		for _, c := range claims {
			if c.tooLarge() {
				refusal, large = &RefusedError{Cause: CauseTooLarge, Subject: c.Subject}, true
			}
		}
		if !large {
			return nil
		}
	}
	return refusal
}

func (c Claim) tooLarge() bool { return c.Limit.Tokens > 0 && c.Tokens > c.Limit.Tokens }

// account returns the account of a claim, nil if there are too many.
func (b *Books) account(c Claim, now time.Time) *account {
	a := b.accounts[c.Subject]
	if a == nil {
		if len(b.accounts) >= b.MaxSubjects && b.sweep(now) == 0 {
			return nil
		}
		a = &account{subject: c.Subject, out: &b.outbox}
		b.accounts[c.Subject] = a
	}
	a.limit, a.touched = c.Limit, now
	return a
}

// sweep forgets the accounts with nothing in them and returns how many.
func (b *Books) sweep(now time.Time) (n int) {
	if now.Sub(b.outbox.swept) < time.Second {
		return 0
	}
	b.outbox.swept = now
	for name, a := range b.accounts {
		if a.idle(now, now.Unix()) {
			delete(b.accounts, name)
			n++
		}
	}
	return n
}

// lost stops the use of the shared books until an exchange works again.
func (b *Books) lost(err error) {
	if !errors.Is(err, ErrEpoch) {
		b.failed = time.Now()
	}
	b.lose()
	signal(b.work)
}

// signal sends to a channel of capacity one, unless a signal is pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
