package quota

import "time"

const (
	// leasePart: a lease is at most 1/leasePart of a limit, so that what replicas hold and don't use stays small.
	leasePart = 100
	// leaseCalls is how many calls of the last two seconds make a lease worth while.
	leaseCalls = 3
)

// account is what one replica knows of a subject. Books.mu guards it.
type account struct {
	subject Subject
	out     *outbox
	limit   Limit
	touched time.Time
	// own is what this replica granted; view is what all had booked when they were last in touch, and what this one
	// granted since. alone is what it granted since it is out of touch.
	own, view, alone Window
	// pending is what the store doesn't know of own, by slot.
	pending map[int64]Amount
	// replaying: the store doesn\'t have anything of own.
	replaying bool
	outside   Outside
	news      News // what the store doesn't know of outside
	inflight  Amount
	lease     lease
	demand    demand
	// Until full, the store is not asked for as many tokens as fullTokens again. fits is when they would fit.
	full, fits time.Time
	fullTokens int64
}

// lease is what the replica has booked in the store beyond what it granted. It ends with its slot.
type lease struct {
	slot  int64
	left  Amount
	until time.Time
}

// demand is what small calls asked of an account in the last seconds.
type demand struct {
	slot         int64
	now, before  Amount
	calls, prior int
}

func (d *demand) roll(slot int64) {
	switch {
	case slot <= d.slot:
	case slot == d.slot+1:
		*d = demand{slot: slot, before: d.now, prior: d.calls}
	default:
		*d = demand{slot: slot}
	}
}

func (d *demand) add(slot int64, a Amount) {
	d.roll(slot)
	d.now = d.now.plus(a)
	d.calls++
}

// grant records a call that was booked under the account. booked is false if the store doesn't know.
func (a *account) grant(slot int64, amount Amount, booked bool) {
	a.own.Add(slot, amount)
	a.inflight = a.inflight.plus(amount)
	if booked {
		a.view.Add(slot, amount)
		return
	}
	a.alone.Add(slot, amount)
	a.owe(slot, amount)
}

// correct changes what was granted in a slot; alone if the store has not been in reach since. It does nothing once the
// slot has aged out.
func (a *account) correct(slot, now int64, change Amount, alone bool) {
	a.own.advance(now)
	if change == (Amount{}) || !a.own.Add(slot, change) {
		return
	}
	if alone {
		a.alone.Add(slot, change)
	} else {
		a.view.Add(slot, change)
	}
	a.owe(slot, change)
}

// owe queues a change for the store. What is to be replayed has it anyway.
func (a *account) owe(slot int64, change Amount) {
	a.out.due[a] = struct{}{}
	if a.replaying {
		return
	}
	if a.pending == nil {
		a.pending = make(map[int64]Amount)
	}
	if a.pending[slot] = a.pending[slot].plus(change); a.pending[slot] == (Amount{}) {
		delete(a.pending, slot)
	}
}

// observe adds to the view what others have booked beyond it. The view is never lowered here: answers overtake each
// other, and the next snapshot is exact.
func (a *account) observe(slot int64, used Amount) {
	for _, untold := range a.pending {
		used = used.plus(untold)
	}
	known := a.view.used(slot)
	a.view.Add(slot, Amount{max(0, used.Tokens-known.Tokens), max(0, used.Requests-known.Requests)})
}

// leasable reports whether small calls of a claim may be booked from a lease.
func (c Claim) leasable() bool {
	l := c.Limit
	return l.Concurrent == 0 && l.Counting == CountArrival && (l.Requests == 0 || l.Requests >= leasePart) && c.Tokens <= l.Tokens/leasePart
}

// lost prepares the account for books that have nothing of it.
func (a *account) lost() {
	a.lease, a.pending, a.replaying = lease{}, nil, true
	a.out.due[a] = struct{}{}
}

// entries takes what the store doesn't know.
func (a *account) entries(now int64) (all []Entry) {
	for slot, amount := range a.pending {
		all = append(all, Entry{Subject: a.subject, Slot: slot, Amount: amount})
	}
	clear(a.pending)
	if !a.replaying {
		return all
	}
	a.replaying = false
	a.own.advance(now)
	a.view.advance(now)
	for slot := now - slots + 1; slot <= now; slot++ {
		if own, known := a.own.At(slot), a.view.At(slot); own != (Amount{}) || known != (Amount{}) {
			all = append(all, Entry{a.subject, slot, own, true, known})
		}
	}
	return all
}

// wish returns what to lease beside a claim: what calls asked for in the last second, at most the largest lease.
func (a *account) wish(c Claim, slot int64) Amount {
	if !c.leasable() {
		return Amount{}
	}
	a.demand.roll(slot)
	if a.demand.calls+a.demand.prior < leaseCalls {
		return Amount{}
	}
	var w Amount
	if l := c.Limit; l.Tokens > 0 {
		w.Tokens = min(l.Tokens/leasePart, max(a.demand.now.Tokens, a.demand.before.Tokens))
	}
	w.Requests = max(a.demand.now.Requests, a.demand.before.Requests)
	if l := c.Limit; l.Requests > 0 {
		w.Requests = min(l.Requests/leasePart, w.Requests)
	}
	if a.lease.slot == slot {
		w = Amount{max(0, w.Tokens-a.lease.left.Tokens), max(0, w.Requests-a.lease.left.Requests)}
	}
	return w
}

// leased reports whether a lease covers a claim.
func (a *account) leased(c Claim, now time.Time) bool {
	left := a.lease.left
	return now.Before(a.lease.until) && a.outside.blocked(now) == 0 && left.Tokens >= c.Tokens && left.Requests >= 1
}

// end returns what is left of the lease to its slot.
func (a *account) end() {
	left := a.lease.left
	slot := a.lease.slot
	a.lease = lease{}
	if left == (Amount{}) {
		return
	}
	a.owe(slot, Amount{}.minus(left))
	a.view.Add(slot, Amount{}.minus(left))
}

// extend adds an amount to the lease of a slot.
func (a *account) extend(slot int64, amount Amount, until time.Time) {
	if amount == (Amount{}) {
		return
	}
	if a.lease.slot != slot {
		a.end()
		a.lease = lease{slot: slot, until: until}
	}
	a.lease.left = a.lease.left.plus(amount)
	a.out.leased[a] = struct{}{}
	a.view.Add(slot, amount)
}

// idle reports whether a new account would be the same, also in an outage, which begins with the view.
func (a *account) idle(now time.Time, slot int64) bool {
	return now.Sub(a.touched) > time.Second && a.own.used(slot) == Amount{} && a.view.used(slot) == Amount{} && a.inflight == Amount{} && len(a.pending) == 0 && !a.replaying &&
		a.lease.left == Amount{} && a.news == News{} && a.outside.over(now)
}
