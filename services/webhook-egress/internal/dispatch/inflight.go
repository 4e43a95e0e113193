package dispatch

import (
	"sync"

	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// maxBacklogged bounds the number of known flows with waiting rows. Beyond it no new delivery is sent from memory
// until some have drained.
const maxBacklogged = 50_000

// Limits bounds what one replica has in flight.
type Limits struct {
	// Total bounds deliveries, from reserving the slot until the result is settled.
	Total int
	// Organization and Flow bound the share of each until its requests are answered, so that slow targets leave room
	// for others. A delivery that waits for the settle counts for Total only: the delay is the store's, not the
	// target's.
	Organization, Flow int
	// Fresh bounds the share of Total for new deliveries, so that retries proceed under any load.
	Fresh int
	// Bytes bounds the bodies together. New deliveries may use three quarters of it. Deliveries accepted while a
	// claim runs may exceed it once.
	Bytes int
}

// MinBytes is the smallest allowed Limits.Bytes: less would not hold one body of the largest size beside the share of
// new deliveries.
const MinBytes = 8 << 20

// claimBytes is the free memory that a claim needs: one body of the largest size.
const claimBytes = 1 << 20

// LimitsOf derives the shares from the totals.
func LimitsOf(total, bytes int) Limits {
	return Limits{
		Total: total, Organization: max(1, total/2), Flow: max(1, total/4), Fresh: max(1, total*3/4), Bytes: bytes,
	}
}

// inflight counts the deliveries in flight. Every slot that is taken is given back once.
type inflight struct {
	limits Limits

	mu            sync.Mutex
	total         int
	bytes         int
	flows         map[int64]int
	organizations map[string]int
	// backlog holds flows that found no slot, or of which a claim left due rows. Their new deliveries queue behind
	// those rows, unless claims leave more than a quarter of the flow's share unused; that part goes to new
	// deliveries.
	backlog map[int64]struct{}
	// starved reports that a claim found no free slot, or too little memory.
	starved bool
	closed  bool
	empty   chan struct{} // closed once inflight is closed and all slots are free
}

func newInflight(limits Limits) *inflight {
	return &inflight{
		limits: limits, flows: make(map[int64]int), organizations: make(map[string]int),
		backlog: make(map[int64]struct{}), empty: make(chan struct{}),
	}
}

// takeFresh takes a slot for a new delivery. Without one, the delivery waits in the store, and so do the next ones of
// the flow until a claim has taken all due rows. If the target is the bottleneck, the flow's share is used up. If a
// quarter of it is free, the store is the bottleneck, and sending even more deliveries through claims would only make
// that worse.
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

// takeBytes counts the body of a delivery that already has a slot.
func (i *inflight) takeBytes(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.bytes += n
}

// takeUpTo takes slots for waiting deliveries: as many as there are, at most want.
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

// give returns slots. It reports whether deliveries may be waiting for exactly these: a claim costs a transaction and
// does not help deliveries that wait for other slots.
func (i *inflight) give(flow delivery.Flow, n, bytes int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	waited := i.share(flow, n, bytes)
	return i.leave(n) || waited
}

// answered returns the share of a delivery whose request has ended, and settled the slot itself. Both report what
// give reports.
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

// share returns a share. It reports whether the flow itself has waiting rows, or whether the organization's share was
// used up so that another of its flows may have.
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

// wanted reports, once, whether a claim found no slot at all, or too little memory.
func (i *inflight) wanted() bool {
	wanted := i.starved
	i.starved = false
	return wanted
}

// waiting records that the flow has due rows in the store, drained that it has none.
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

// idle records that no flow has due rows in the store. It removes flows that another replica drained and flows that
// were parked meanwhile.
func (i *inflight) idle() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.backlog)
}

// full returns the flows and organizations that have used up their share, and how many slots and bytes are free. Both
// are zero when that is too little for a claim.
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

// close refuses all further slots. The returned channel is closed once all slots are free.
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
