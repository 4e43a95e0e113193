package dispatch

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

// Intervals and bounds of the claim loop.
const (
	// minPoll is the time between two claims while there is work.
	minPoll = 5 * time.Millisecond
	// maxPoll is the time between two claims while there is none. Wake-ups only shorten it: polling finds all work.
	maxPoll = time.Second
	// claimFlows and claimRows bound a claim: the flows share the rows and the free slots.
	claimFlows = 64
	claimRows  = 512
	// retryDelay is the least time until the next look at a flow that was refused.
	retryDelay = 100 * time.Millisecond
	// claimTimeout bounds the transaction.
	claimTimeout = 5 * time.Second
)

// claimLoop claims due rows: often while there are any, seldom otherwise.
func (e *Engine) claimLoop(ctx context.Context) {
	pause := minPoll
	for {
		var claimed Claimed
		err := lifecycle.Protect(ctx, "webhook claim", func() (err error) {
			claimed, err = e.claim(ctx)
			return err
		})
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			e.o.Log.WarnContext(ctx, "claim failed", slog.String("error", err.Error()))
			pause = maxPoll
		case claimed.Flows > 0:
			pause = minPoll
		default:
			pause = min(2*pause, maxPoll)
		}
		if !e.rest(ctx, until(pause, claimed.Next, err)) {
			return
		}
	}
}

// until returns how long to wait: pause, or less when a flow becomes ready earlier.
func until(pause, next time.Duration, err error) time.Duration {
	if err != nil || next < 0 {
		return pause
	}
	return max(minPoll, min(pause, next))
}

// rest waits for d or a wake-up, at least minPoll. It reports whether to continue.
func (e *Engine) rest(ctx context.Context, d time.Duration) bool {
	least, most := time.NewTimer(minPoll), time.NewTimer(d)
	defer least.Stop()
	defer most.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-least.C:
	}
	select {
	case <-ctx.Done():
		return false
	case <-e.wake:
	case <-most.C:
	}
	return true
}

// claim leases rows for the free slots and passes them to the workers.
func (e *Engine) claim(ctx context.Context) (Claimed, error) {
	none := Claimed{Next: -1}
	flows, organizations, free, bytes := e.inflight.full()
	passedOver := len(flows)+len(organizations) > 0
	if free == 0 {
		return none, nil // The goroutine that frees a slot wakes the loop.
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	g := &grants{engine: e, free: free}
	defer g.giveBack(ctx)
	claimed, err := e.o.Store.Claim(ctx, Claim{
		Replica: e.o.Replica.ID(), Lease: e.o.Lease, Flows: claimFlows, Bytes: bytes,
		FullFlows: flows, FullOrganizations: organizations, Grant: g.grant,
	})
	if err == nil {
		e.send(ctx, g, claimed)
		e.note(g.picked, claimed.Drained)
		if claimed.Flows == 0 && !passedOver {
			e.inflight.idle()
		}
	}
	if err != nil {
		return none, err
	}
	if passedOver {
		claimed.Next = -1 // The next ready flow may be one that was passed over.
	}
	return claimed, nil
}

// send passes claimed jobs to the workers.
func (e *Engine) send(ctx context.Context, g *grants, claimed Claimed) {
	for _, job := range claimed.Jobs {
		job.Admitted, job.AdmittedByHost = g.used(job.FlowID)
		e.inflight.takeBytes(len(job.Body))
		e.jobs <- job
	}
	for _, id := range claimed.Gone {
		e.o.Log.WarnContext(ctx, "a queued delivery no longer exists: its day was dropped", slog.String("delivery_id", id.String()))
	}
}

// note records which of the claimed flows have due rows left.
func (e *Engine) note(picked []Picked, drained []int64) {
	for _, p := range picked {
		if !p.Flow.Metered {
			e.inflight.waiting(p.Flow.ID)
		}
	}
	for _, id := range drained {
		e.inflight.drained(id)
	}
}
