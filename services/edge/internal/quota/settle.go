package quota

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	// linger is how long counts wait for others to settle with.
	linger = 10 * time.Millisecond
	// settleTime bounds one exchange with a store; waitTime is how long a call waits for a settlement.
	settleTime = 400 * time.Millisecond
	waitTime   = 500 * time.Millisecond
	// bypassFor is how long no call waits after a settlement that failed or took too long, and how long Redis is not tried
	// again after it failed.
	bypassFor = time.Second
	// refreshEvery is how often a holder asks what others have counted, where it reports nothing: because it refuses calls,
	// or because Redis is away.
	refreshEvery = time.Second
	// compareEvery is how often a window is compared with what the meter has: calls may have come while no plan held.
	compareEvery = 10 * time.Second
	// staleAfter is the age of what was spent from which a call waits until it is read again.
	staleAfter = 3 * time.Second
	// most is how many holders are settled at once.
	most = 100
	// idleTime is how long a holder is kept after its last call, sweepEvery how often unused ones are removed.
	idleTime   = 10 * time.Minute
	sweepEvery = time.Minute
)

// Run settles what is due until ctx ends. It continues after every failure of the stores and logs only the first of a
// row.
func (x *Enforcer) Run(ctx context.Context, log *slog.Logger) error {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			x.sweep(time.Now())
			continue
		case <-x.work:
		}
		x.linger(ctx)
		tried := x.shared == nil || x.sharing(time.Now())
		err := x.settle(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && !tried: // Redis is away, and was not asked.
			continue
		case err != nil && !failing:
			log.WarnContext(ctx, "quotas cannot be settled; without Redis, replicas learn from the counters in Postgres what others count", "error", err.Error())
		case err == nil && failing:
			log.InfoContext(ctx, "quotas are settled again")
		}
		failing = err != nil
	}
}

// linger waits for more counts: briefly, and not at all if a call waits.
func (x *Enforcer) linger(ctx context.Context) {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-x.urgent:
	}
}

// wait waits for a settlement. After one that takes too long, no other call waits for bypassFor.
func (x *Enforcer) wait(ctx context.Context, settled <-chan struct{}) {
	signal(x.urgent)
	timer := time.NewTimer(waitTime)
	defer timer.Stop()
	select {
	case <-settled:
	case <-ctx.Done():
	case <-timer.C:
		x.bypassUntil.Store(time.Now().Add(bypassFor).UnixNano())
	}
}

// settle settles what is due, page by page.
func (x *Enforcer) settle(ctx context.Context) (err error) {
	x.dueMu.Lock()
	due := x.due
	x.due = nil
	x.dueMu.Unlock()
	for len(due) > 0 {
		page := due[:min(len(due), most)]
		due = due[len(page):]
		err = errors.Join(err, x.settlePage(ctx, page))
	}
	return err
}

// sweep removes holders that were not used lately.
func (x *Enforcer) sweep(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, h := range x.holders {
		if !h.mu.TryLock() { // A call has it, and may wait for x.mu.
			continue
		}
		if h.idle(now) {
			h.gone = true
			delete(x.holders, name)
		}
		h.mu.Unlock()
	}
}
