package quota

import "time"

// Reservation is what a call has booked. Exactly one of its methods Settle, SettleEach and Cancel has an effect, once.
type Reservation struct {
	books       *Books
	id          string
	alternative int
	waited      time.Duration
	queued      bool
	entries     []entry
	own         int // how many of the entries are the caller's own claims
	done        bool
	// What the call was charged in its queue; served and reached are what the store said afterwards, negative if it
	// was not asked.
	queue, organization string
	weight              int64
	tokens              int64
	served, reached     float64
}

// entry is a booked claim.
type entry struct {
	account *account
	claim   Claim
	slot    int64
	// outage numbers the time without the store in which the claim was booked; 0 if the store knows of it.
	outage int
}

// unlimited is the reservation of all calls without a limit.
var unlimited = &Reservation{done: true}

// Alternative returns the index of the alternative that was booked; 0 if there was none to choose.
func (r *Reservation) Alternative() int { return r.alternative }

// Queued reports whether the call waited in its queue, and Waited how long.
func (r *Reservation) Queued() bool { return r.queued }

// Waited returns how long the call waited.
func (r *Reservation) Waited() time.Duration { return r.waited }

// Settle replaces the worst case of a call that has ended with the tokens that it took. More tokens than were reserved
// are booked as well.
func (r *Reservation) Settle(tokens int64) {
	r.end(func(Subject) int64 { return tokens }, false)
}

// SettleEach settles a call of which subjects count different tokens. It calls tokens before it changes anything.
func (r *Reservation) SettleEach(tokens func(Subject) int64) { r.end(tokens, false) }

// Cancel gives back all that a call has booked that was never sent.
func (r *Reservation) Cancel() { r.end(func(Subject) int64 { return 0 }, true) }

// Split moves the caller's own claims to a reservation of their own, so that they can be settled later than the others: a
// request may make several calls. It must be called before the reservation ends, at most once.
func (r *Reservation) Split() *Reservation {
	if r.own == 0 {
		return unlimited
	}
	b := r.books
	b.mu.Lock()
	defer b.mu.Unlock()
	own := &Reservation{books: b, id: r.id, entries: r.entries[:r.own:r.own], served: -1, reached: -1}
	r.entries, r.own = r.entries[r.own:], 0
	delete(b.flights, r)
	b.track(r)
	b.track(own)
	return own
}

func (r *Reservation) end(tokens func(Subject) int64, unsent bool) {
	if r.books == nil {
		return
	}
	taken := make([]int64, len(r.entries))
	var most int64
	for i := range r.entries {
		taken[i] = min(max(0, tokens(r.entries[i].claim.Subject)), maxTokens)
		most = max(most, taken[i])
	}
	b := r.books
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.done {
		return
	}
	r.done = true
	delete(b.flights, r)
	now := b.now().Unix()
	for i, e := range r.entries {
		e.end(b, taken[i], unsent, now)
		if e.claim.Limit.Concurrent > 0 {
			b.outbox.holds = append(b.outbox.holds, Hold{Subject: e.claim.Subject, ID: r.id})
		}
	}
	b.correctServed(r, most)
	if !unsent {
		b.learnTaken(r, most)
	}
	b.freed = true
	if b.waiting > 0 {
		signal(b.work)
	}
}

// end corrects one entry.
func (e entry) end(b *Books, taken int64, unsent bool, now int64) {
	a, alone := e.account, b.alone(e)
	a.inflight = a.inflight.minus(e.claim.amount())
	if e.claim.Limit.Tokens == 0 {
		taken = 0
	}
	change := Amount{Tokens: taken - e.claim.Tokens}
	if e.claim.Limit.Counting == CountCompletion && !unsent {
		change.Tokens = -e.claim.Tokens
		a.correct(now, now, Amount{Tokens: taken}, alone)
	}
	if unsent {
		change.Requests = -1
	}
	a.correct(e.slot, now, change, alone)
	a.full = time.Time{}
}

// alone reports whether the store has not been in reach since an entry was booked without it.
func (b *Books) alone(e entry) bool { return !b.shared && e.outage == b.outage }

// reservation returns the empty reservation of an option.
func (b *Books) reservation(d *Demand, o option) *Reservation {
	return &Reservation{
		books: b, alternative: o.alternative, entries: make([]entry, 0, len(o.claims)), own: o.own,
		queue: d.Queue, organization: d.Organization, weight: d.weight(), tokens: d.tokens(), served: -1, reached: -1,
	}
}

// track keeps a reservation that has to be renewed until it ends.
func (b *Books) track(r *Reservation) {
	for _, e := range r.entries {
		if e.claim.Limit.Concurrent > 0 || e.claim.Limit.Counting == CountCompletion {
			b.flights[r] = struct{}{}
			return
		}
	}
}

// renew moves what counts on completion into the current second, so that it counts for a minute after it has ended, and
// keeps the places of concurrent calls. If this replica dies, both end by themselves.
func (b *Books) renew(now int64) {
	for r := range b.flights {
		for i := range r.entries {
			e := &r.entries[i]
			if e.claim.Limit.Counting == CountCompletion && e.slot < now {
				tokens := Amount{Tokens: e.claim.Tokens}
				e.account.correct(e.slot, now, Amount{}.minus(tokens), b.alone(*e))
				e.account.correct(now, now, tokens, b.alone(*e))
				e.slot = now
			}
			if e.claim.Limit.Concurrent > 0 {
				b.outbox.holds = append(b.outbox.holds, Hold{e.claim.Subject, r.id, holdTime})
			}
		}
	}
}
