package quota

import (
	"context"
	"strconv"
	"time"
)

// option is an alternative that may be booked, with the accounts of its claims.
type option struct {
	alternative int
	claims      []Claim
	accounts    []*account
	own         int
}

// options returns the alternatives that are large enough for the call.
func (b *Books) options(d *Demand, now time.Time) ([]option, *RefusedError) {
	all := make([]option, 0, max(1, len(d.Alternatives)))
	for i := range max(1, len(d.Alternatives)) {
		o := option{alternative: i}
		o.claims, o.own = d.claims(i)
		o.accounts = make([]*account, len(o.claims))
		large := false
		for j, c := range o.claims {
			large = large || c.tooLarge()
			if o.accounts[j] = b.account(c, now); o.accounts[j] == nil {
				return nil, &RefusedError{Cause: CauseSubjects, Subject: c.Subject, RetryAfter: span}
			}
		}
		if !large {
			all = append(all, o)
		}
	}
	return all, nil
}

// try makes one attempt. Exactly one of its results is not nil. place is nil without a queue.
func (b *Books) try(ctx context.Context, d Demand, place *Place) (*Reservation, *RefusedError, error) {
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
		r, refusal := b.tryAlone(&d, options, place, now)
		b.mu.Unlock()
		return r, refusal, nil
	}
	open, short := ask(options, now)
	if len(open) == 0 {
		b.mu.Unlock()
		return nil, short, nil
	}
	request := b.request(&d, open, place, now)
	b.mu.Unlock()

	asked := time.Now()
	limited, cancel := context.WithTimeout(ctx, reserveTimeout)
	defer cancel()
	g, err := b.Store.Reserve(limited, request)

	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil && g.Alternative >= 0:
		r := b.granted(&d, open[g.Alternative], request, g, asked)
		b.observe(open, request, g)
		return r, nil, nil
	case err == nil:
		b.observe(open, request, g)
		return nil, b.refused(open, g, short), nil
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	}
	b.lost(err)
	r, refusal := b.tryAlone(&d, options, place, b.now())
	return r, refusal, nil
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
func (b *Books) tryAlone(d *Demand, options []option, place *Place, now time.Time) (*Reservation, *RefusedError) {
	p := b.part
	nothing := p.members == 0 && now.Sub(b.born.Add(b.ahead)) < span
	if p.members == 0 {
		p = part{members: b.Replicas, rank: b.Replicas}
	}
	var least *RefusedError
	for _, o := range options {
		refusal := p.refuses(o, d.paces(place), now)
		if nothing && len(o.claims) > 0 {
			refusal = &RefusedError{Cause: CauseStore, Subject: o.claims[0].Subject, RetryAfter: retryAlone, served: -1}
		}
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
func (p part) refuses(o option, paces pacing, now time.Time) (longest *RefusedError) {
	for i, c := range o.claims {
		a := o.accounts[i]
		wait, cause := p.check(&a.view, &a.alone, a.outside, c.Limit, c.amount(), paces.of(i < o.own), now)
		if c.Limit.Concurrent > 0 && wait == 0 && a.inflight.Requests >= p.of(int64(c.Limit.Concurrent)) {
			wait, cause = ConcurrentWait, CauseConcurrent
		}
		if wait > 0 && (longest == nil || wait > longest.RetryAfter) {
			longest = &RefusedError{Cause: cause, Subject: c.Subject, RetryAfter: wait, own: i < o.own, served: -1}
		}
	}
	return longest
}

// orSooner returns the refusal with the shorter wait; one of the queue before one of the caller's own.
func (r *RefusedError) orSooner(other *RefusedError) *RefusedError {
	if r == nil || r.own && !other.own || r.own == other.own && other.RetryAfter < r.RetryAfter {
		return other
	}
	return r
}

// ask returns the options of which the store has to be asked, and the sooner refusal of those that are known to be short.
func ask(options []option, now time.Time) (open []option, least *RefusedError) {
	for _, o := range options {
		if short := o.known(now); short != nil {
			least = least.orSooner(short)
		} else {
			open = append(open, o)
		}
	}
	return open, least
}

// known returns the refusal of an option that is known to be short, nil if the store has to be asked.
func (o option) known(now time.Time) (short *RefusedError) {
	for i, c := range o.claims {
		a := o.accounts[i]
		wait, cause := a.outside.blocked(now), CauseVendor
		if now.Before(a.full) && c.Tokens >= a.fullTokens && a.fits.Sub(now) > wait {
			wait, cause = a.fits.Sub(now), CauseLimit
		}
		if wait > 0 && (short == nil || wait > short.RetryAfter) {
			short = &RefusedError{Cause: cause, Subject: c.Subject, RetryAfter: wait, own: i < o.own, served: -1}
		}
	}
	return short
}

// request asks the store for options, and for leases of what is asked for often.
func (b *Books) request(d *Demand, options []option, place *Place, now time.Time) Request {
	b.calls++
	paces := d.paces(place)
	r := Request{Epoch: b.epoch, Replica: b.Replica, ID: b.Replica + "." + strconv.FormatInt(b.calls, 36), Hold: holdTime, Place: place}
	for _, o := range options {
		bookings := make([]Booking, len(o.claims))
		for i, c := range o.claims {
			bookings[i] = Booking{Claim: c, Lease: o.accounts[i].wish(c, now.Unix()), Own: i < o.own, Steady: paces.of(i < o.own)}
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
	if request.Place != nil {
		r.served, r.reached = g.Served, g.Reached
	}
	b.track(r)
	return r
}

// observe keeps the view of subjects close to the books, so that an outage finds it complete.
func (b *Books) observe(options []option, request Request, g Grant) {
	if request.Epoch != b.epoch || !b.shared {
		return
	}
	for i, used := range g.Used[:min(len(g.Used), len(options))] {
		for j, amount := range used[:min(len(used), len(options[i].accounts))] {
			options[i].accounts[j].observe(g.Now.Unix(), amount)
		}
	}
}

// refused returns the shortage that ends first, and remembers what is full. least is that of options that were not asked
// for, nil without any.
func (b *Books) refused(options []option, g Grant, least *RefusedError) *RefusedError {
	for i, s := range g.Short {
		if s.Booking < 0 {
			return &RefusedError{Cause: CauseOrder, RetryAfter: s.Wait, served: g.Served}
		}
		o := options[i]
		c, a := o.claims[s.Booking], o.accounts[s.Booking]
		if s.Cause == CauseLimit {
			now := b.now()
			a.fits, a.full, a.fullTokens = now.Add(s.Wait), now.Add(min(s.Wait, askAgain)), c.Tokens
		}
		least = least.orSooner(&RefusedError{Cause: s.Cause, Subject: c.Subject, RetryAfter: min(s.Wait, never), own: s.Booking < o.own, served: g.Served})
	}
	return least
}
