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

// inflight counts what is in flight. Every slot that is taken is given back once.
type inflight struct {
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
	empty   chan struct{} // closed when no more is taken and nothing is left
}

func newInflight(limits Limits) *inflight {
	return &inflight{
		limits: limits, flows: make(map[int64]int), organizations: make(map[string]int),
		backlog: make(map[int64]struct{}), empty: make(chan struct{}),
	}
}

// takeFresh takes a slot for a new delivery. Without one it waits in the store, and so
// do the flow's next until a claim has taken all that is due there. A target that
// keeps claims from emptying the store has its share used up; when a quarter of it is
// free, the store itself is what holds up, and to bring still more by way of a claim
// would only make that worse.
func (i *inflight) takeFresh(flow delivery.Flow, bytes int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, waits := i.backlog[flow.ID]
	if flow.Metered || waits && i.flows[flow.ID] >= i.limits.Flow/4*3 || len(i.backlog) >= maxBacklogged {
		return false
	}
	if i.total >= i.limits.Fresh || i.bytes+bytes > i.limits.Bytes/4*3 || i.take(flow, 1) == 0 {
		i.backlog[flow.ID] = struct{}{}
		return false
	}
	i.bytes += bytes
	return true
}

// takeBytes notes the body of a delivery that already has a slot.
func (i *inflight) takeBytes(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.bytes += n
}

// takeUpTo takes as many slots for waiting deliveries as there are, at most want.
func (i *inflight) takeUpTo(flow delivery.Flow, want int) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.take(flow, want)
}

func (i *inflight) take(flow delivery.Flow, want int) int {
	if i.closed {
		return 0
	}
	got := max(0, min(
		want,
		i.limits.Total-i.total,
		i.limits.Flow-i.flows[flow.ID],
		i.limits.Organization-i.organizations[flow.Organization],
	))
	if got > 0 {
		i.total += got
		i.flows[flow.ID] += got
		i.organizations[flow.Organization] += got
	}
	return got
}

// give returns slots. It reports whether deliveries may be waiting for these: it
// doesn't help those that wait for other slots, and every claim costs a transaction.
func (i *inflight) give(flow delivery.Flow, n, bytes int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	waited := i.share(flow, n, bytes)
	return i.leave(n) || waited
}

// answered returns the share of a delivery whose request is over, settled the slot
// itself. Both tell what give does.
func (i *inflight) answered(flow delivery.Flow, bytes int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	waited := i.share(flow, 1, bytes)
	return i.wanted() || waited
}

func (i *inflight) settled() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.leave(1)
}

// share reports whether the flow itself waits, or the share of its organization was
// used up, for which another of its flows may wait.
func (i *inflight) share(flow delivery.Flow, n, bytes int) bool {
	_, waits := i.backlog[flow.ID]
	full := i.flows[flow.ID] >= i.limits.Flow || i.organizations[flow.Organization] >= i.limits.Organization
	i.bytes -= bytes
	if i.flows[flow.ID] -= n; i.flows[flow.ID] == 0 {
		delete(i.flows, flow.ID)
	}
	if i.organizations[flow.Organization] -= n; i.organizations[flow.Organization] == 0 {
		delete(i.organizations, flow.Organization)
	}
	return waits || full && len(i.backlog) > 0
}

func (i *inflight) leave(n int) bool {
	i.total -= n
	i.signal()
	return i.wanted()
}

// wanted reports whether a claim found no slot at all, or too little memory.
func (i *inflight) wanted() bool {
	wanted := i.starved
	i.starved = false
	return wanted
}

// waiting notes that the flow has due rows in the store, drained that it has none.
func (i *inflight) waiting(flow int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.backlog[flow] = struct{}{}
}

func (i *inflight) drained(flow int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.backlog, flow)
}

// idle notes that no flow has due rows in the store. It forgets those that
// another replica worked off and those that were parked meanwhile.
func (i *inflight) idle() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.backlog)
}

// full lists the flows and organizations that have used up their share, and
// tells how many slots and bytes are free; none, when it is too little to claim for.
func (i *inflight) full() (flows []int64, organizations []string, free, bytes int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	flows, organizations = []int64{}, []string{}
	for id, n := range i.flows {
		if n >= i.limits.Flow {
			flows = append(flows, id)
		}
	}
	for id, n := range i.organizations {
		if n >= i.limits.Organization {
			organizations = append(organizations, id)
		}
	}
	if i.closed {
		return flows, organizations, 0, 0
	}
	bytes = i.limits.Bytes - i.bytes
	if i.starved = i.total >= i.limits.Total || bytes < claimBytes; i.starved {
		return flows, organizations, 0, 0
	}
	return flows, organizations, i.limits.Total - i.total, bytes
}

func (i *inflight) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.total
}

func (i *inflight) inMemory() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.bytes
}

// close lets nothing in any more. The channel is closed once all have left.
func (i *inflight) close() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.closed = true
		i.signal()
	}
	return i.empty
}

func (i *inflight) signal() {
	if !i.closed || i.total > 0 {
		return
	}
	select {
	case <-i.empty:
	default:
		close(i.empty)
	}
}

func (i *inflight) backlogged() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.backlog)
}
