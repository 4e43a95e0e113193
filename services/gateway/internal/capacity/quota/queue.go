package quota

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

const (
	// maxBypasses is how many smaller calls may go before the first of a queue that does not fit. Then what becomes
	// free is kept for it.
	maxBypasses = 8
	// maxSkips bounds how many callers of one organization are skipped that lack something of their own.
	maxSkips = 64
	// maxJitter spreads the replicas that wait for the same moment.
	maxJitter = 50 * time.Millisecond
)

// queue holds the callers of one replica that wait for the same alternatives. Organizations have counters of what they
// were served, in tokens by weight (virtual token counters); the one with the least goes next. Books.mu guards it.
//
// One caller at a time has the lead: it asks the store for itself, or waits for the moment at which asking makes sense,
// or passes the lead to the caller that is next.
type queue struct {
	name    string
	lines   map[string]*line
	waiting int
	lead    *waiter
	kick    chan struct{} // the lead should look again
	// reached is what had been served to the organization that went last. Who joins later starts there.
	reached float64
	// taken is the part of what calls have booked that they took in the end, 1 at first.
	taken float64
	// Until retry, calls of as many tokens as short or more are known not to fit.
	retry time.Time
	short int64
	// steady: retry is not moved forward by what is given back.
	steady bool
	used   time.Time
	// announced: the store knows that a caller waits here.
	announced bool
}

// line holds the waiting callers of an organization, in the order in which they came.
type line struct {
	organization string
	served       float64
	waiters      []*waiter
	used         time.Time
	tokens       int64
	cost         float64 // tokens by weight
}

type waiter struct {
	demand   *Demand
	line     *line
	tokens   int64
	cost     float64
	joined   time.Time
	woken    chan struct{}
	own      time.Time // until then the caller lacks something of its own
	joins    bool      // the organization did not wait before
	bypassed int
}

// queued reserves for a demand with a queue. If no caller waits in it, the call asks the store at once.
func (b *Books) queued(ctx context.Context, d Demand) (*Reservation, error) {
	b.mu.Lock()
	q := b.queue(d.Queue)
	w := q.arrive(&d)
	var refusal *RefusedError
	direct := q.waiting == 0
	if !direct {
		refusal = b.join(q, w)
	}
	place := q.placeOf(w)
	b.mu.Unlock()
	if refusal != nil {
		return nil, refusal
	}
	if direct {
		r, refusal, err := b.try(ctx, d, place)
		if refusal == nil || b.givesUp(q, w, refusal, true) {
			return b.done(q, w, r, refusal, err)
		}
	}
	r, refusal, err := b.wait(ctx, q, w)
	if r != nil {
		r.queued = true
	}
	b.mu.Lock()
	b.leave(q, w)
	b.mu.Unlock()
	return b.done(q, w, r, refusal, err)
}

// done completes the result of a caller.
func (b *Books) done(q *queue, w *waiter, r *Reservation, refusal *RefusedError, err error) (*Reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	waited := time.Since(w.joined)
	switch {
	case r != nil:
		r.waited = waited
		b.charge(q, w, r)
	case refusal != nil:
		refusal.Waited = waited
	}
	return result(r, refusal, err)
}

// wait leads the queue whenever w has the lead, until the call is booked or may not wait any longer.
func (b *Books) wait(ctx context.Context, q *queue, w *waiter) (*Reservation, *RefusedError, error) {
	expired, again := time.NewTimer(w.demand.Wait-time.Since(w.joined)), time.NewTimer(0)
	defer expired.Stop()
	defer again.Stop()
	for {
		b.mu.Lock()
		pause, leads := b.step(q, w)
		place := q.placeOf(w)
		b.mu.Unlock()
		if leads && pause <= 0 {
			r, refusal, err := b.try(ctx, *w.demand, place)
			if refusal == nil || b.givesUp(q, w, refusal, false) {
				return r, refusal, err
			}
			continue
		}
		var kick chan struct{}
		again.Stop()
		if leads {
			kick = q.kick
			again.Reset(pause)
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-expired.C:
			return nil, b.expired(q, w), nil
		case <-w.woken:
		case <-again.C:
		case <-kick:
		}
	}
}

// step returns whether w has the lead, and how long to pause before asking for it. If it has the lead and another
// caller is next, that one gets it.
func (b *Books) step(q *queue, w *waiter) (pause time.Duration, leads bool) {
	if q.lead != w {
		return 0, false
	}
	now := time.Now()
	next, at := q.next(now)
	if next != w && next != nil {
		q.pass(next)
		return 0, false
	}
	return max(0, at.Sub(now)), true
}

func (q *queue) pass(to *waiter) {
	q.lead = to
	signal(to.woken)
}

// head returns the first caller of the queue that lacks nothing of its own and claims fewer tokens than below, nil if
// there is none.
func (q *queue) head(now time.Time, below int64) (head *waiter) {
	for _, l := range q.lines {
		if w := l.first(now); w != nil && w.tokens < below && (head == nil || l.before(head.line)) {
			head = w
		}
	}
	return head
}

// next returns the caller that should ask the store now. If none should, it returns the first of the queue and when it
// should.
func (q *queue) next(now time.Time) (*waiter, time.Time) {
	head := q.head(now, math.MaxInt64)
	if head == nil {
		return q.soonest()
	}
	if !now.Before(q.retry) {
		return head, now
	}
	if head.bypassed < maxBypasses {
		if smaller := q.head(now, q.short); smaller != nil {
			return smaller, now
		}
	}
	return head, q.retry
}

// soonest returns the caller that first stops lacking something of its own.
func (q *queue) soonest() (w *waiter, at time.Time) {
	for _, l := range q.lines {
		for _, other := range l.waiters[:min(len(l.waiters), maxSkips)] {
			if w == nil || other.own.Before(at) {
				w, at = other, other.own
			}
		}
	}
	return w, at
}

// before orders lines by what was served; names break ties.
func (l *line) before(other *line) bool {
	if l.served != other.served {
		return l.served < other.served
	}
	return l.organization < other.organization
}

// first returns the first caller of a line that lacks nothing of its own, nil if there is none.
func (l *line) first(now time.Time) *waiter {
	for _, w := range l.waiters[:min(len(l.waiters), maxSkips)] {
		if !now.Before(w.own) {
			return w
		}
	}
	return nil
}

// placeOf returns the place of w over all replicas.
func (q *queue) placeOf(w *waiter) *Place {
	t := &Place{
		Queue: q.name, Organization: w.line.organization, Waits: w.demand.Wait > 0,
		Served: w.line.served, Joins: w.joins, Cost: w.cost, Slack: slack(w.demand), Next: -1,
	}
	now := time.Now()
	for _, l := range q.lines {
		served := l.served
		if l == w.line {
			if len(l.waiters) < 2 {
				continue
			}
			served += w.cost
		}
		if l.first(now) != nil && (t.Next < 0 || served < t.Next) {
			t.Next = served
		}
	}
	return t
}

// slack is a tenth of a second of what all alternatives of a demand can serve.
func slack(d *Demand) (tokens float64) {
	for _, claims := range d.Alternatives {
		least := 0.0
		for _, c := range claims {
			if rate := float64(c.Limit.Tokens) / 600; rate > 0 && (least == 0 || rate < least) {
				least = rate
			}
		}
		tokens += least
	}
	return tokens
}

// givesUp applies a refusal, and reports whether the caller has to leave with it. Otherwise it waits in the queue.
func (b *Books) givesUp(q *queue, w *waiter, r *RefusedError, direct bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	left := w.demand.Wait - now.Sub(w.joined)
	if r.Cause == CauseSubjects || left <= 0 || direct && b.hopeless(q, w, r) > left {
		return true
	}
	if direct {
		if full := b.join(q, w); full != nil {
			*r = *full
			return true
		}
	}
	signal(b.work)                                       // What calls gave back may not be in the shared books yet.
	jitter := rand.N(min(maxJitter, r.RetryAfter/4) + 1) //nolint:gosec // spreads replicas, hides nothing
	at := now.Add(r.RetryAfter + jitter)
	q.announced, w.joins = true, false
	if r.served >= 0 {
		w.line.served = r.served + b.outbox.served[servedKey{q.name, w.line.organization}]
	}
	switch {
	case r.own:
		w.own = at
	case r.Cause == CauseOrder && q.head(now, math.MaxInt64) != w:
		// Another organization turns out to be first.
	case r.Cause == CausePace, r.Cause == CauseOrder:
		q.retry, q.short, q.steady = at, 0, true
	case r.Cause == CauseConcurrent:
		q.retry, q.short, q.steady = at, 0, false
	case now.Before(q.retry):
		q.short = min(q.short, w.tokens) // The retry is that of the first.
	default:
		q.retry, q.short, q.steady = at, w.tokens, false
	}
	return false
}

// hopeless returns how long a refused caller would wait even if all calls in flight gave back what they have booked.
func (b *Books) hopeless(q *queue, w *waiter, r *RefusedError) time.Duration {
	if r.Cause == CauseStore { // Only this replica's part is short.
		return r.RetryAfter
	}
	return b.predict(q, w, true)
}

// expired returns the refusal of a caller that waited as long as it may.
func (b *Books) expired(q *queue, w *waiter) *RefusedError {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &RefusedError{Cause: CauseWaited, RetryAfter: max(b.predict(q, w, false), time.Second)}
}
