package limit

import (
	"context"
	"log/slog"
	"time"
)

const (
	// linger is how long spendings wait for others to settle with.
	linger = 10 * time.Millisecond
	// settleTime bounds one settlement; waitTime is how long a request waits for it.
	settleTime = 250 * time.Millisecond
	waitTime   = 50 * time.Millisecond
	// bypassFor is how long each replica uses its local state after a failed settlement.
	bypassFor = time.Second
	// most is how many buckets are settled at once.
	most = 500
	// sweepEvery is the interval at which accounts of full buckets are removed.
	sweepEvery = time.Minute
)

// Run settles what is due until ctx ends. It continues after every failure of the fleet and logs only the first of a
// row.
func (x *Limiter) Run(ctx context.Context, log *slog.Logger) error {
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
		err := x.settle(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			log.WarnContext(ctx, "rate limits cannot be settled; each replica uses its local state", "error", err.Error())
		case err == nil && failing:
			log.InfoContext(ctx, "rate limits are settled again")
		}
		failing = err != nil
	}
}

// linger waits for more spendings: briefly, and not at all if a lease runs out. After a failure it waits longer.
func (x *Limiter) linger(ctx context.Context) {
	pause, urgent := linger, x.urgent
	if away := time.Until(time.Unix(0, x.bypassUntil.Load())); away > 0 {
		pause, urgent = away, nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-urgent:
	}
}

// settles reports whether waiting for a settlement makes sense.
func (x *Limiter) settles(now time.Time) bool {
	return x.fleet != nil && now.UnixNano() >= x.bypassUntil.Load()
}

// wait waits for the settlement of a used-up lease. After one that takes too long, no other request waits for
// bypassFor.
func (x *Limiter) wait(ctx context.Context, settled <-chan struct{}) {
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

// settle reports what is due, page by page. It drops what it cannot report, so that those requests are not counted: the
// report may have arrived, and an outage must not charge a request twice.
func (x *Limiter) settle(ctx context.Context) error {
	x.dueMu.Lock()
	due := x.due
	x.due = nil
	x.dueMu.Unlock()
	var failed error
	for len(due) > 0 {
		page := due[:min(len(due), most)]
		due = due[len(page):]
		if err := x.settlePage(ctx, page, failed); err != nil {
			failed = err
		}
	}
	return failed
}

// settlePage reports one page, or drops it immediately if an earlier page failed.
func (x *Limiter) settlePage(ctx context.Context, page []*account, failed error) error {
	spent, counts := make([]Spending, len(page)), make([]int64, len(page))
	for i, a := range page {
		a.mu.Lock()
		counts[i] = a.owed
		spent[i] = Spending{Name: a.name, Cost: a.interval * time.Duration(a.owed)}
		a.mu.Unlock()
	}
	var ahead []time.Duration
	asked, err := time.Now(), failed
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, settleTime)
		defer cancel()
		ahead, err = x.fleet.Settle(ctx, spent)
	}
	if err != nil {
		x.bypassUntil.Store(time.Now().Add(bypassFor).UnixNano())
	} else {
		x.bypassUntil.Store(0)
	}
	for i, a := range page {
		var full time.Time
		if err == nil {
			full = asked.Add(ahead[i]) // slightly too early: the request took time
		}
		x.close(a, counts[i], full)
	}
	return err
}

// close ends the report of an account. full is the fleet's state of the bucket, zero if unknown. What was spent
// meanwhile is due next time.
func (x *Limiter) close(a *account, reported int64, full time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owed -= reported
	if full = full.Add(a.interval * time.Duration(a.owed)); full.After(a.full) {
		a.full = full
	}
	if a.settled != nil {
		close(a.settled)
		a.settled = nil
	}
	if a.owed > 0 {
		x.dueMu.Lock()
		x.due = append(x.due, a)
		x.dueMu.Unlock()
		signal(x.work)
	}
}

// sweep removes the accounts of full buckets: a new account would be the same.
func (x *Limiter) sweep(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, a := range x.accounts {
		a.mu.Lock()
		if a.owed == 0 && a.settled == nil && !a.full.After(now) {
			a.gone = true
			delete(x.accounts, name)
		}
		a.mu.Unlock()
	}
}
