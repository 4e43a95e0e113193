package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math"
	"strconv"
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
	waiting  int
	freed    bool // something may have become free since the callers that wait asked last
	// flights are the reservations that need to be renewed: of concurrent calls, and of those that count on completion.
	flights map[*Reservation]struct{}
	calls   int64
	work    chan struct{} // an exchange should not wait for its time

	standing

	outbox outbox
}

// standing is how a replica stands with the store. Books.mu guards it.
type standing struct {
	born  time.Time
	epoch string
	// ahead is how far the store's clock is ahead of this replica's.
	ahead time.Duration
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
		Options: o.withDefaults(), accounts: make(map[Subject]*account), queues: make(map[string]*queue),
		flights: make(map[*Reservation]struct{}), work: make(chan struct{}, 1), standing: standing{born: time.Now()}, outbox: newOutbox(),
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

// TryReserve books a call, or returns a *Refusal at once. It takes nothing from callers that wait in the same queue.
func (b *Books) TryReserve(ctx context.Context, d Demand) (*Reservation, error) {
	d.Wait = 0
	return b.Reserve(ctx, d)
}

// Reserve books a call, or waits until it can, for at most d.Wait. It returns a *Refusal if the call may not be sent,
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
func result(r *Reservation, refusal *Refusal, err error) (*Reservation, error) {
	if refusal != nil {
		return nil, refusal
	}
	return r, err
}

// tooLarge returns the refusal of a call that no alternative can ever hold.
func (d *Demand) tooLarge() (refusal *Refusal) {
	for i := range max(1, len(d.Alternatives)) {
		large := false
		claims, _ := d.claims(i)
		for _, c := range claims {
			if c.tooLarge() {
				refusal, large = &Refusal{Cause: CauseTooLarge, Subject: c.Subject}, true
			}
		}
		if !large {
			return nil
		}
	}
	return refusal
}

func (c Claim) tooLarge() bool { return c.Limit.Tokens > 0 && c.Tokens > c.Limit.Tokens }

// option is an alternative that may be booked, with the accounts of its claims.
type option struct {
	alternative int
	claims      []Claim
	accounts    []*account
	own         int
}

// options returns the alternatives that are large enough for the call.
func (b *Books) options(d *Demand, now time.Time) ([]option, *Refusal) {
	all := make([]option, 0, max(1, len(d.Alternatives)))
	for i := range max(1, len(d.Alternatives)) {
		o := option{alternative: i}
		o.claims, o.own = d.claims(i)
		o.accounts = make([]*account, len(o.claims))
		large := false
		for j, c := range o.claims {
			large = large || c.tooLarge()
			if o.accounts[j] = b.account(c, now); o.accounts[j] == nil {
				return nil, &Refusal{Cause: CauseSubjects, Subject: c.Subject, RetryAfter: span}
			}
		}
		if !large {
			all = append(all, o)
		}
	}
	return all, nil
}

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

// try makes one attempt. Exactly one of its results is not nil. turn is nil without a queue.
func (b *Books) try(ctx context.Context, d Demand, turn *Turn) (*Reservation, *Refusal, error) {
	b.mu.Lock()
	now := b.now()
	options, refusal := b.options(&d, now)
	if refusal != nil {
		b.mu.Unlock()
		return nil, refusal, nil
	}
	if r := b.tryLeases(&d, options, now); r != nil {
		b.mu.Unlock()
		return r, nil, nil
	}
	if !b.shared {
		r, refusal := b.tryAlone(&d, options, now)
		b.mu.Unlock()
		return r, refusal, nil
	}
	if refusal := known(options, now); refusal != nil {
		b.mu.Unlock()
		return nil, refusal, nil
	}
	request := b.request(options, turn, now)
	b.mu.Unlock()

	asked := time.Now()
	limited, cancel := context.WithTimeout(ctx, reserveTimeout)
	defer cancel()
	g, err := b.Store.Reserve(limited, request)

	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil && g.Alternative >= 0:
		return b.granted(&d, options[g.Alternative], request, g, asked), nil, nil
	case err == nil:
		return nil, b.refused(options, g), nil
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	}
	b.lost(err)
	r, refusal := b.tryAlone(&d, options, b.now())
	return r, refusal, nil
}

// lost stops the use of the shared books until an exchange works again.
func (b *Books) lost(err error) {
	if !errors.Is(err, ErrEpoch) {
		b.failed = time.Now()
	}
	b.lose()
	signal(b.work)
}

// tryLeases books the first option that may be free, if leases cover it or nothing limits it.
func (b *Books) tryLeases(d *Demand, options []option, now time.Time) *Reservation {
	for _, o := range options {
		if o.known(now) != nil {
			continue
		}
		covered := true
		for i, c := range o.claims {
			covered = covered && b.shared && c.leasable() && o.accounts[i].leased(c, now)
		}
		if !covered {
			return nil
		}
		r := b.reservation(d, o)
		for i, c := range o.claims {
			a := o.accounts[i]
			a.demand.add(now.Unix(), c.amount())
			a.lease.left = a.lease.left.minus(c.amount())
			a.own.Add(a.lease.slot, c.amount())
			a.inflight = a.inflight.plus(c.amount())
			r.entries = append(r.entries, entry{account: a, claim: c, slot: a.lease.slot})
		}
		return r
	}
	return nil
}

// tryAlone books the first option that fits this replica's part.
func (b *Books) tryAlone(d *Demand, options []option, now time.Time) (*Reservation, *Refusal) {
	p := b.part
	if p.members == 0 {
		if now.Sub(b.born.Add(b.ahead)) < span {
			o := options[0]
			return nil, &Refusal{Cause: CauseStore, Subject: o.claims[0].Subject, RetryAfter: retryAlone, served: -1}
		}
		p = part{members: b.Replicas, rank: b.Replicas}
	}
	var least *Refusal
	for _, o := range options {
		refusal := p.refuses(o, now)
		if refusal == nil {
			r := b.reservation(d, o)
			for i, c := range o.claims {
				o.accounts[i].grant(now.Unix(), c.amount(), false)
				r.entries = append(r.entries, entry{account: o.accounts[i], claim: c, slot: now.Unix(), outage: b.outage})
			}
			b.track(r)
			return r, nil
		}
		least = least.orSooner(refusal)
	}
	return nil, least
}

// refuses returns why an option does not fit a part of the limits, nil if it does.
func (p part) refuses(o option, now time.Time) (longest *Refusal) {
	for i, c := range o.claims {
		a := o.accounts[i]
		wait, cause := p.check(&a.view, &a.alone, a.outside, c.Limit, c.amount(), now)
		if c.Limit.Concurrent > 0 && wait == 0 && a.inflight.Requests >= p.of(int64(c.Limit.Concurrent)) {
			wait, cause = ConcurrentWait, CauseConcurrent
		}
		if wait > 0 && (longest == nil || wait > longest.RetryAfter) {
			longest = &Refusal{Cause: cause, Subject: c.Subject, RetryAfter: wait, own: i < o.own, served: -1}
		}
	}
	return longest
}

// orSooner returns the refusal with the shorter wait; one of the queue before one of the caller's own.
func (r *Refusal) orSooner(other *Refusal) *Refusal {
	if r == nil || r.own && !other.own || r.own == other.own && other.RetryAfter < r.RetryAfter {
		return other
	}
	return r
}

// known returns the refusal of a call of which all options are known to be short, nil if the store has to be asked.
func known(options []option, now time.Time) (least *Refusal) {
	for _, o := range options {
		short := o.known(now)
		if short == nil {
			return nil
		}
		least = least.orSooner(short)
	}
	return least
}

// known returns the refusal of an option that is known to be short, nil if the store has to be asked.
func (o option) known(now time.Time) (short *Refusal) {
	for i, c := range o.claims {
		a := o.accounts[i]
		wait, cause := a.outside.blocked(now), CauseVendor
		if now.Before(a.full) && c.Tokens >= a.fullTokens && a.fits.Sub(now) > wait {
			wait, cause = a.fits.Sub(now), CauseLimit
		}
		if wait > 0 && (short == nil || wait > short.RetryAfter) {
			short = &Refusal{Cause: cause, Subject: c.Subject, RetryAfter: wait, own: i < o.own, served: -1}
		}
	}
	return short
}

// request asks the store for options, and for leases of what is asked for often.
func (b *Books) request(options []option, turn *Turn, now time.Time) Request {
	b.calls++
	r := Request{Epoch: b.epoch, Replica: b.Replica, ID: b.Replica + "." + strconv.FormatInt(b.calls, 36), Hold: holdTime, Turn: turn}
	for _, o := range options {
		bookings := make([]Booking, len(o.claims))
		for i, c := range o.claims {
			bookings[i] = Booking{Claim: c, Lease: o.accounts[i].wish(c, now.Unix()), Own: i < o.own}
		}
		r.Alternatives = append(r.Alternatives, bookings)
	}
	return r
}

// granted records what the store booked.
func (b *Books) granted(d *Demand, o option, request Request, g Grant, asked time.Time) *Reservation {
	slot := g.Now.Unix()
	r := b.reservation(d, o)
	r.id = request.ID
	fresh := request.Epoch == b.epoch // else the booking was lost with the books
	outage := 0
	if !fresh && !b.shared {
		outage = b.outage
	}
	for i, c := range o.claims {
		a := o.accounts[i]
		a.demand.add(slot, c.amount())
		a.grant(slot, c.amount(), fresh || b.shared)
		if !fresh && b.shared {
			a.owe(slot, c.amount())
		}
		if fresh && b.shared && i < len(g.Leases) {
			ends := time.Unix(slot+1, 0).Sub(g.Now)
			a.extend(slot, g.Leases[i], asked.Add(b.ahead+ends))
		}
		r.entries = append(r.entries, entry{account: a, claim: c, slot: slot, outage: outage})
	}
	if request.Turn != nil {
		r.served, r.reached = g.Served, g.Reached
	}
	b.track(r)
	return r
}

// refused returns the shortage that ends first, and remembers what is full.
func (b *Books) refused(options []option, g Grant) (least *Refusal) {
	for i, s := range g.Short {
		if s.Booking < 0 {
			return &Refusal{Cause: CauseOrder, RetryAfter: s.Wait, served: g.Served}
		}
		o := options[i]
		c, a := o.claims[s.Booking], o.accounts[s.Booking]
		if s.Cause == CauseLimit {
			now := b.now()
			a.fits, a.full, a.fullTokens = now.Add(s.Wait), now.Add(min(s.Wait, askAgain)), c.Tokens
		}
		least = least.orSooner(&Refusal{Cause: s.Cause, Subject: c.Subject, RetryAfter: min(s.Wait, never), own: s.Booking < o.own, served: g.Served})
	}
	return least
}

// Load is how a subject stands, as far as the replica knows.
type Load struct {
	// Free is the part of the limit that is free, from 0 to 1.
	Free float64
	// InFlight is the worst case of this replica's calls in flight, in parts of the limit.
	InFlight float64
}

// Load estimates how a subject stands, for ranking alternatives. A subject without entries is free.
func (b *Books) Load(s Subject) Load {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[s]
	if a == nil {
		return Load{Free: 1}
	}
	now := b.now()
	if a.outside.blocked(now) > 0 {
		return Load{InFlight: a.flying()}
	}
	used := a.view.used(now.Unix()).plus(a.alone.used(now.Unix()))
	free := 1.0
	if l := a.outside.believed(a.limit.Tokens, now); a.limit.Tokens > 0 {
		free = 1 - float64(used.Tokens+a.outside.unseen(now))/float64(l)
	}
	if l := a.outside.believed(a.limit.Requests, now); a.limit.Requests > 0 {
		free = min(free, 1-float64(used.Requests)/float64(l))
	}
	return Load{Free: math.Max(0, free), InFlight: a.flying()}
}

// flying returns the worst case in flight in parts of the limit.
func (a *account) flying() float64 {
	switch l := a.limit; {
	case l.Tokens > 0:
		return float64(a.inflight.Tokens) / float64(l.Tokens)
	case l.Requests > 0:
		return float64(a.inflight.Requests) / float64(l.Requests)
	case l.Concurrent > 0:
		return float64(a.inflight.Requests) / float64(l.Concurrent)
	}
	return 0
}

// signal sends to a channel of capacity one, unless a signal is pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
