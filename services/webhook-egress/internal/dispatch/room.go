package dispatch

import (
	"sync"

	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// maxBacklogged bounds the memory of which flows have rows waiting. Beyond it
// nothing new is sent from memory until some have been worked off.
const maxBacklogged = 50_000

// Limits of what one replica has in flight.
type Limits struct {
	// Total deliveries, from the slot that is reserved until the result is settled.
	Total int
	// Organization and Flow bound the share of one of them until its requests are
	// answered, so that slow targets leave room for others. What then waits for the
	// settle counts only for Total: the store holds that up, not the target.
	Organization, Flow int
	// Fresh bounds how much of Total goes to new deliveries, so that retries get
	// a turn under any load.
	Fresh int
	// Bytes is how much their bodies may have together. New deliveries get three
	// quarters of it. What is accepted while a claim runs may go over it once.
	Bytes int
}

// MinBytes is the least that Limits.Bytes may be: less would not hold one body of
// the largest size beside what new deliveries may take.
const MinBytes = 8 << 20

// claimBytes is what has to be free for a claim: one body of the largest size.
const claimBytes = 1 << 20

// LimitsOf derives the shares from totals.
func LimitsOf(total, bytes int) Limits {
	return Limits{
		Total: total, Organization: max(1, total/2), Flow: max(1, total/4), Fresh: max(1, total*3/4), Bytes: bytes,
	}
}

// room counts what is in flight. Every slot that is taken is given back once.
type room struct {
	limits Limits

	mu            sync.Mutex
	total         int
	bytes         int
	flows         map[int64]int
	organizations map[string]int
	// backlog holds flows for which there was no slot, or of which a claim left due
	// rows: their new deliveries queue up behind those. Only what claims leave unused
	// of the flow's share, beyond a quarter of it, goes to new ones all the same.
	backlog map[int64]struct{}
	// starved: a claim found no free slot, or too little memory.
	starved bool
	closed  bool
	empty   chan struct{} // closed when the room is closed and nobody is left
}

func newRoom(limits Limits) *room {
	return &room{
		limits: limits, flows: make(map[int64]int), organizations: make(map[string]int),
		backlog: make(map[int64]struct{}), empty: make(chan struct{}),
	}
}

// takeFresh takes a slot for a new delivery. Without one it waits in the store, and so
// do the flow's next until a claim has taken all that is due there. A target that
// keeps claims from emptying the store has its share used up; when a quarter of it is
// free, the store itself is what holds up, and to bring still more by way of a claim
// would only make that worse.
func (r *room) takeFresh(flow delivery.Flow, bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, waits := r.backlog[flow.ID]
	if flow.Metered || waits && r.flows[flow.ID] >= r.limits.Flow/4*3 || len(r.backlog) >= maxBacklogged {
		return false
	}
	if r.total >= r.limits.Fresh || r.bytes+bytes > r.limits.Bytes/4*3 || r.take(flow, 1) == 0 {
		r.backlog[flow.ID] = struct{}{}
		return false
	}
	r.bytes += bytes
	return true
}

// takeBytes notes the body of a delivery that already has a slot.
func (r *room) takeBytes(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += n
}

// takeUpTo takes as many slots for waiting deliveries as there are, at most want.
func (r *room) takeUpTo(flow delivery.Flow, want int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.take(flow, want)
}

func (r *room) take(flow delivery.Flow, want int) int {
	if r.closed {
		return 0
	}
	got := max(0, min(
		want,
		r.limits.Total-r.total,
		r.limits.Flow-r.flows[flow.ID],
		r.limits.Organization-r.organizations[flow.Organization],
	))
	if got > 0 {
		r.total += got
		r.flows[flow.ID] += got
		r.organizations[flow.Organization] += got
	}
	return got
}

// give returns slots. It tells whether somebody may be waiting for them: whoever
// waits for others is not helped, and every look costs a transaction.
func (r *room) give(flow delivery.Flow, n, bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	waited := r.share(flow, n, bytes)
	return r.leave(n) || waited
}

// answered returns the share of a delivery whose request is over, settled the slot
// itself. Both tell what give does.
func (r *room) answered(flow delivery.Flow, bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	waited := r.share(flow, 1, bytes)
	return r.wanted() || waited
}

func (r *room) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leave(1)
}

// share tells whether the flow itself waits, or the share of its organization was
// used up, for which another of its flows may wait.
func (r *room) share(flow delivery.Flow, n, bytes int) bool {
	_, waits := r.backlog[flow.ID]
	full := r.flows[flow.ID] >= r.limits.Flow || r.organizations[flow.Organization] >= r.limits.Organization
	r.bytes -= bytes
	if r.flows[flow.ID] -= n; r.flows[flow.ID] == 0 {
		delete(r.flows, flow.ID)
	}
	if r.organizations[flow.Organization] -= n; r.organizations[flow.Organization] == 0 {
		delete(r.organizations, flow.Organization)
	}
	return waits || full && len(r.backlog) > 0
}

func (r *room) leave(n int) bool {
	r.total -= n
	r.signal()
	return r.wanted()
}

// wanted tells whether a claim found no slot at all, or too little memory.
func (r *room) wanted() bool {
	wanted := r.starved
	r.starved = false
	return wanted
}

// waiting notes that the flow has due rows in the store, drained that it has none.
func (r *room) waiting(flow int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backlog[flow] = struct{}{}
}

func (r *room) drained(flow int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.backlog, flow)
}

// idle notes that no flow has due rows in the store. It forgets those that
// another replica worked off and those that were parked meanwhile.
func (r *room) idle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.backlog)
}

// full lists the flows and organizations that have used up their share, and
// tells how many slots and bytes are free; none, when it is too little to claim for.
func (r *room) full() (flows []int64, organizations []string, free, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	flows, organizations = []int64{}, []string{}
	for id, n := range r.flows {
		if n >= r.limits.Flow {
			flows = append(flows, id)
		}
	}
	for id, n := range r.organizations {
		if n >= r.limits.Organization {
			organizations = append(organizations, id)
		}
	}
	if r.closed {
		return flows, organizations, 0, 0
	}
	bytes = r.limits.Bytes - r.bytes
	if r.starved = r.total >= r.limits.Total || bytes < claimBytes; r.starved {
		return flows, organizations, 0, 0
	}
	return flows, organizations, r.limits.Total - r.total, bytes
}

func (r *room) inFlight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

func (r *room) inMemory() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// close lets nothing in any more. The channel is closed once all have left.
func (r *room) close() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.signal()
	}
	return r.empty
}

func (r *room) signal() {
	if !r.closed || r.total > 0 {
		return
	}
	select {
	case <-r.empty:
	default:
		close(r.empty)
	}
}

func (r *room) backlogged() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.backlog)
}
