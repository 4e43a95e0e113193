package quota

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"time"
)

const (
	// heartbeatEvery is how often a replica announces itself, renews its calls and reads the shared books. What it has to
	// tell goes out every flushEvery, or after urgentAfter if a caller waits for it.
	heartbeatEvery = time.Second
	flushEvery     = 100 * time.Millisecond
	urgentAfter    = 10 * time.Millisecond
	// exchangeTimeout bounds one call of the store in the background, awayEvery is how often a store is tried that
	// failed.
	exchangeTimeout = 500 * time.Millisecond
	awayEvery       = 250 * time.Millisecond
	// maxReport bounds each list of a report, maxSnapshots the subjects that are read at once.
	maxReport    = 500
	maxSnapshots = 200
)

// outbox is what the store has yet to be told. Books.mu guards it.
type outbox struct {
	due      map[*account]struct{} // accounts with pending changes or news
	leased   map[*account]struct{}
	holds    []Hold
	served   map[servedKey]float64
	left     map[string]struct{} // queues in which no caller waits any more
	sequence int64               // begins with the time, so that a replica that restarts under its name continues
	// unsent is the report that failed: the store may have applied it, so it is sent again as it is.
	unsent *Report
	// replaying: the store doesn't have all that was granted in the last minute.
	replaying bool
	swept     time.Time
	heartbeat time.Time
}

type servedKey struct{ queue, organization string }

func newOutbox() outbox {
	return outbox{sequence: time.Now().UnixMilli(), due: make(map[*account]struct{}), leased: make(map[*account]struct{}), served: make(map[servedKey]float64), left: make(map[string]struct{})}
}

func (o *outbox) empty() bool {
	return o.unsent == nil && !o.replaying && len(o.due)+len(o.holds)+len(o.served)+len(o.left) == 0
}

// Run exchanges with the store until ctx ends. It continues after every failure and logs only the first of a row.
func (b *Books) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failing := false; ; {
		urgent := b.work
		if failing {
			urgent = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-urgent:
			timer.Reset(urgentAfter)
			select {
			case <-ctx.Done():
				return nil
			case <-timer.C:
			}
		}
		err := b.sync(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			b.Log.WarnContext(ctx, "the shared books of quotas are out of reach; this replica keeps to its part", slog.String("error", err.Error()))
		case err == nil && failing:
			b.Log.InfoContext(ctx, "the shared books of quotas are in reach again")
		}
		failing = err != nil
		b.wake()
		if failing {
			timer.Reset(awayEvery)
		} else {
			timer.Reset(flushEvery)
		}
	}
}

// sync tells the store what is due, and reads it on a heartbeat or after an outage.
func (b *Books) sync(ctx context.Context) error {
	b.mu.Lock()
	if time.Since(b.failed) < awayEvery {
		b.mu.Unlock()
		return nil
	}
	now := b.now()
	heartbeat := now.Sub(b.outbox.heartbeat) >= heartbeatEvery || now.Before(b.outbox.heartbeat) || !b.shared
	b.endLeases(now)
	if heartbeat {
		b.outbox.heartbeat = now
		b.renew(now.Unix())
		b.sweep(now)
		b.sweepQueues(now)
	}
	idle := b.outbox.empty() && !heartbeat
	b.mu.Unlock()
	if idle {
		return nil
	}
	for {
		more, err := b.exchange(ctx)
		if err != nil {
			b.mu.Lock()
			b.lose()
			b.mu.Unlock()
			return err
		}
		if !more {
			break
		}
	}
	if heartbeat {
		return b.read(ctx)
	}
	return nil
}

// exchange sends one report. more: there is more to tell.
func (b *Books) exchange(ctx context.Context) (more bool, err error) {
	b.mu.Lock()
	report := b.report()
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	view, err := b.Store.Exchange(ctx, *report)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.outbox.unsent = report
		return false, err
	}
	b.ahead = time.Until(view.Now)
	b.outbox.unsent = nil
	if view.Epoch != b.epoch {
		b.adopt(view.Epoch)
		return true, nil
	}
	if report.Replayed {
		b.outbox.replaying = false
	}
	if !view.Trusted {
		b.lose()
		return b.outbox.replaying, nil
	}
	b.members = view.Members
	if p := partOf(view.Members, b.Replica); 0 < b.part.members && b.part.members <= p.members {
		b.part = p // It gets larger only with a view: this one may lack what others have booked.
	}
	b.trusted = !b.outbox.replaying
	return !b.outbox.empty(), nil
}

// lose stops the use of the shared books.
func (b *Books) lose() {
	if b.shared {
		b.shared = false
		b.outage++
	}
	b.trusted = false
}

// adopt prepares for books that have nothing of this replica.
func (b *Books) adopt(epoch string) {
	b.epoch, b.outbox.replaying = epoch, true
	b.lose()
	for _, a := range b.accounts {
		a.lost()
	}
}

// report takes what is due, as much as fits.
func (b *Books) report() *Report {
	o := &b.outbox
	if o.unsent != nil {
		o.unsent.Members = b.members
		return o.unsent
	}
	o.sequence++
	now := b.now().Unix()
	r := &Report{Replica: b.Replica, Epoch: b.epoch, Candidate: rand.Text(), Sequence: o.sequence, Members: b.members}
	for a := range o.due {
		if len(r.Entries) > maxReport-slots {
			break
		}
		r.Entries = append(r.Entries, a.entries(now)...)
		if a.news != (News{}) {
			r.News = append(r.News, a.news)
			a.news = News{}
		}
		delete(o.due, a)
	}
	n := min(len(o.holds), maxReport)
	r.Holds, o.holds = o.holds[:n:n], o.holds[n:]
	for key, cost := range o.served {
		if len(r.Served) == maxReport {
			break
		}
		r.Served = append(r.Served, Served{key.queue, key.organization, cost})
		delete(o.served, key)
	}
	for queue := range o.left {
		if len(r.Queues) == maxReport {
			break
		}
		r.Queues = append(r.Queues, Waiting{queue})
		delete(o.left, queue)
	}
	r.Replayed = o.replaying && len(o.due) == 0
	return r
}

// endLeases returns what is left of leases whose slot has ended.
func (b *Books) endLeases(now time.Time) {
	for a := range b.outbox.leased {
		if !now.Before(a.lease.until) {
			a.end()
			delete(b.outbox.leased, a)
		}
	}
}

// read replaces the view of all accounts in use, and returns to the shared books.
func (b *Books) read(ctx context.Context) error {
	b.mu.Lock()
	now := b.now()
	var names []Subject
	for name, a := range b.accounts {
		if (a.own.used(now.Unix()) != Amount{} || a.inflight != Amount{} || now.Sub(a.touched) < Life) {
			names = append(names, name)
		}
	}
	epoch := b.epoch
	b.mu.Unlock()
	for page := range slices.Chunk(names, maxSnapshots) {
		if err := b.readPage(ctx, epoch, page); err != nil {
			b.mu.Lock()
			b.lose()
			b.mu.Unlock()
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.freed = true
	if !b.trusted || b.epoch != epoch {
		return nil
	}
	b.part = partOf(b.members, b.Replica)
	if !b.shared {
		if b.counted != epoch {
			b.counted = epoch
			b.rebase()
		}
		b.shared = true
		for _, a := range b.accounts {
			a.alone = Window{}
		}
	}
	return nil
}

func (b *Books) readPage(ctx context.Context, epoch string, page []Subject) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	all, _, err := b.Store.Snapshots(ctx, epoch, page)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, name := range page {
		a := b.accounts[name]
		if a == nil || i >= len(all) || !b.trusted {
			continue
		}
		a.view, a.outside, a.full = all[i].Window, all[i].Outside, time.Time{}
		for slot, amount := range a.pending {
			a.view.Add(slot, amount)
		}
		if a.news != (News{}) {
			a.outside.Learn(a.news, b.now())
		}
	}
	return nil
}
