package quota

import (
	"math"
	"slices"
	"time"
)

const (
	// maxPeriods bounds a predicted wait, in minutes.
	maxPeriods = 1000
	// takenWeight is the weight of a call in what calls take of what they book.
	takenWeight = 0.05
)

// queue returns the queue of a name.
func (b *Books) queue(name string) *queue {
	q := b.queues[name]
	if q == nil {
		q = &queue{name: name, lines: make(map[string]*line), kick: make(chan struct{}, 1), taken: 1}
		b.queues[name] = q
	}
	return q
}

// arrive returns a caller that is not in the queue yet.
func (q *queue) arrive(d *Demand) *waiter {
	l := q.lines[d.Organization]
	if l == nil {
		l = &line{organization: d.Organization}
		q.lines[d.Organization] = l
	}
	w := &waiter{demand: d, line: l, tokens: d.tokens(), joined: time.Now(), woken: make(chan struct{}, 1)}
	if len(l.waiters) == 0 {
		w.joins = true
		l.served = max(l.served, q.least())
	}
	w.cost = float64(max(1, w.tokens)) / float64(d.weight())
	q.used, l.used = w.joined, w.joined
	return w
}

// least returns the least that an organization was served that waits here, 0 without any.
func (q *queue) least() float64 {
	if head := q.head(time.Now(), math.MaxInt64); head != nil {
		return head.line.served
	}
	return 0
}

// join adds a caller to the queue, or refuses it because too many wait, or because it would wait too long.
func (b *Books) join(q *queue, w *waiter) *RefusedError {
	l, d := w.line, w.demand
	if predicted := b.predict(q, w, true); b.waiting >= b.MaxWaiting || b.waitingOf[d.Organization] >= b.MaxWaitingEach || d.Wait <= 0 ||
		q.waiting > 0 && predicted > d.Wait {
		return &RefusedError{Cause: CauseQueue, RetryAfter: max(b.predict(q, w, false), time.Second)}
	}
	q.lines[d.Organization] = l // It may have been swept meanwhile.
	l.waiters = append(l.waiters, w)
	l.tokens += w.tokens
	l.cost += w.cost
	q.waiting++
	b.waiting++
	b.waitingOf[d.Organization]++
	if q.lead == nil {
		q.lead = w
	} else if l.waiters[0] == w {
		signal(q.kick)
	}
	return nil
}

// leave removes a caller at once, and passes the lead on.
func (b *Books) leave(q *queue, w *waiter) {
	l := w.line
	if i := slices.Index(l.waiters, w); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
	}
	l.tokens -= w.tokens
	l.cost -= w.cost
	q.waiting--
	b.waiting--
	if b.waitingOf[l.organization]--; b.waitingOf[l.organization] == 0 {
		delete(b.waitingOf, l.organization)
	}
	if q.waiting == 0 && q.announced {
		q.announced = false
		b.outbox.left[q.name] = struct{}{}
	}
	if q.lead != w {
		return
	}
	q.lead = nil
	if next, _ := q.next(time.Now()); next != nil {
		q.pass(next)
	}
}

// charge adds a grant to what the caller's organization was served.
func (b *Books) charge(q *queue, w *waiter, r *Reservation) {
	if head := q.head(time.Now(), math.MaxInt64); head != nil && head.joined.Before(w.joined) && head.line.before(w.line) {
		head.bypassed++
	}
	if r.served >= 0 {
		w.line.served = r.served + b.outbox.served[servedKey{q.name, w.line.organization}]
		q.reached = max(q.reached, r.reached)
		return
	}
	q.reached = max(q.reached, w.line.served)
	w.line.served += w.cost
	b.outbox.served[servedKey{q.name, w.line.organization}] += w.cost
}

// correctServed replaces the worst case that an organization was charged with what a call took.
func (b *Books) correctServed(r *Reservation, tokens int64) {
	q := b.queues[r.queue]
	change := float64(tokens-r.tokens) / float64(r.weight)
	if r.queue == "" || q == nil || change == 0 {
		return
	}
	if l := q.lines[r.organization]; l != nil {
		l.served += change
	}
	b.outbox.served[servedKey{r.queue, r.organization}] += change
}

// rebase lets the counters of what organizations were served begin anew, for a store that has none. Replicas count
// differently while they are on their own, so that only the differences between organizations mean the same to all.
func (b *Books) rebase() {
	clear(b.outbox.served)
	for _, q := range b.queues {
		base := q.reached
		if q.waiting > 0 {
			base = q.least()
		}
		for _, l := range q.lines {
			l.served = max(0, l.served-base)
		}
		q.reached = max(0, q.reached-base)
	}
}

// learnTaken learns from a call of a queue that has ended.
func (b *Books) learnTaken(r *Reservation, tokens int64) {
	if q := b.queues[r.queue]; q != nil && r.tokens > 0 {
		q.taken += (float64(tokens)/float64(r.tokens) - q.taken) * takenWeight
	}
}

// wake lets the callers with the lead look again, if something may have become free.
func (b *Books) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.freed {
		return
	}
	b.freed = false
	for _, q := range b.queues {
		if q.waiting > 0 && !q.steady {
			q.retry = time.Time{}
			signal(q.kick)
		}
	}
}

// sweepQueues forgets what would be the same if it were new, and organizations that have not called for a minute.
func (b *Books) sweepQueues(now time.Time) {
	for name, q := range b.queues {
		for organization, l := range q.lines {
			if len(l.waiters) == 0 && (l.served <= q.reached || now.Sub(l.used) > time.Minute) {
				delete(q.lines, organization)
			}
		}
		if q.waiting == 0 && now.Sub(q.used) > time.Minute {
			delete(b.queues, name)
		}
	}
}

// predict estimates how long a caller would wait in a queue: until what goes before it and the call itself fit. It
// takes the other replicas for as busy as this one, and calls to take what they took lately of what they book. At best the
// calls in flight give back all that they have booked.
func (b *Books) predict(q *queue, w *waiter, atBest bool) time.Duration {
	d, last := w.demand, w.line.served
	if !slices.Contains(w.line.waiters, w) {
		last += w.line.cost
	}
	ahead := 0.0
	for _, l := range q.lines {
		if l.cost > 0 {
			ahead += float64(l.tokens) * min(1, max(0, last-l.served)/l.cost)
		}
	}
	now := b.now()
	share := int64(ahead * q.taken * float64(max(1, b.part.members)) / float64(max(1, len(d.Alternatives))))
	least := never * time.Duration(maxPeriods)
	for i := range max(1, len(d.Alternatives)) {
		claims, own := d.claims(i)
		var wait time.Duration
		for j, c := range claims {
			need := c.Tokens
			if j >= own {
				need += share
			}
			wait = max(wait, b.until(c, need, atBest, now))
		}
		least = min(least, wait)
	}
	return least
}

// until returns the time until tokens more, and one request, fit a claim's limit, beside what is known of it.
func (b *Books) until(c Claim, tokens int64, atBest bool, now time.Time) time.Duration {
	a := b.accounts[c.Subject]
	if a == nil {
		return 0
	}
	room := Limit{Tokens: a.outside.believed(c.Limit.Tokens, now), Requests: a.outside.believed(c.Limit.Requests, now)}
	if atBest {
		room.Tokens += a.inflight.Tokens * int64(max(1, b.part.members))
	}
	periods := int64(0)
	if c.Limit.Tokens > 0 {
		periods, tokens = tokens/room.Tokens, tokens%room.Tokens
	}
	o := a.view.outlook(now.Unix())
	wait := first(now, func(n int) bool { return room.holds(c.Limit, o[n], Amount{Tokens: tokens, Requests: 1}, 0) })
	return max(a.outside.blocked(now), min(wait, span)+time.Duration(min(periods, maxPeriods))*span)
}
