package quota

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/edge/internal/plan"
)

// part is a window in a settlement.
type part struct {
	h      *holder
	window *window
	report Report
	// based reports that the report needs a base, due that the window is due for a comparison. owed is what the report takes
	// off the window's debt, and used what the window held without it.
	based, due bool
	owed, used int64
	// count is what the stores have, negative if unknown.
	count int64
}

// settlePage settles one page of holders: over Redis, or else from the meter's counters. What was spent is read.
func (x *Enforcer) settlePage(ctx context.Context, page []*holder) error {
	now := time.Now()
	sharing := x.sharing(now)
	counted, spent := collect(page, now, sharing)
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	var failed error
	if sharing {
		x.compare(ctx, counted, now)
		if failed = x.share(ctx, counted); failed != nil {
			x.awayUntil.Store(time.Now().Add(bypassFor).UnixNano())
		}
	}
	var unread error
	if !sharing || failed != nil {
		unread = x.read(ctx, counted, x.durable.Counted)
	}
	unspent := x.read(ctx, spent, x.durable.Spent)
	if unread != nil || unspent != nil {
		x.bypassUntil.Store(time.Now().Add(bypassFor).UnixNano())
	}
	for _, p := range counted {
		p.finish(sharing && failed == nil, unread == nil, now)
	}
	for _, p := range spent {
		p.finishSpent(unspent == nil, now)
	}
	for _, h := range page {
		x.release(h, time.Now())
	}
	return errors.Join(failed, unread, unspent)
}

// collect returns the windows to settle, and those whose spending is read. Without sharing, those that were read lately
// wait.
func collect(page []*holder, now time.Time, sharing bool) (counted, spent []part) {
	for _, h := range page {
		h.mu.Lock()
		lately := now.Sub(h.settledAt) < refreshEvery
		for m := range h.windows {
			for p := range h.windows[m] {
				w := &h.windows[m][p]
				switch {
				case !w.holds(now):
				case meters[m].spent && (!w.known || now.Sub(w.readAt) >= refreshEvery):
					spent = append(spent, newPart(h, w, meters[m], periods[p], now))
				case !meters[m].spent && (sharing || !w.known || !lately):
					counted = append(counted, newPart(h, w, meters[m], periods[p], now))
				}
			}
		}
		h.mu.Unlock()
	}
	return counted, spent
}

// newPart returns the part of a window. One that this replica does not know yet is compared with the meter: Redis may have
// an old copy.
func newPart(h *holder, w *window, m meterOf, p plan.Period, now time.Time) part {
	return part{
		h: h, window: w, based: w.stale || !w.known, due: now.Sub(w.comparedAt) >= compareEvery, owed: w.owed, used: w.used - w.owed, count: -1,
		report: Report{Delta: w.owed, Base: -1, Window: Window{
			Organization: h.organization, Key: h.key, Meter: m.name, Period: p, Metrics: m.metrics, Start: time.Unix(w.start, 0).UTC(), End: time.Unix(w.end, 0).UTC(),
		}},
	}
}

// compare finds the windows that lack more than replicas may not have reported yet: they get a base. Where the counts of
// the meter can't be read, the windows stay as they are until the next comparison.
func (x *Enforcer) compare(ctx context.Context, parts []part, now time.Time) {
	if now.UnixNano() < x.uncountedUntil.Load() {
		return
	}
	var due []*part
	for i := range parts {
		if p := &parts[i]; p.due && !p.based {
			due = append(due, p)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime/4)
	defer cancel()
	counts, err := ask(ctx, due, x.durable.Counted)
	if err != nil {
		x.uncountedUntil.Store(now.Add(compareEvery).UnixNano())
		return
	}
	for i, p := range due {
		p.based = counts[i]-p.owed-p.used > max(2, p.used/20)
	}
}

// share exchanges counts over Redis. A window that Redis does not know, and one whose counts may be missing there, is
// raised to what the meter has.
func (x *Enforcer) share(ctx context.Context, parts []part) error {
	var known, missing []*part
	for i := range parts {
		if p := &parts[i]; p.based {
			missing = append(missing, p)
		} else {
			known = append(known, p)
		}
	}
	if err := x.add(ctx, known); err != nil {
		return err
	}
	for _, p := range known {
		if p.count < 0 {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	counts, err := ask(ctx, missing, x.durable.Counted)
	if err != nil {
		return err
	}
	for i, p := range missing {
		p.report.Base = max(counts[i]-p.owed, p.used) // The meter may have what is owed already.
	}
	return x.add(ctx, missing)
}

func (x *Enforcer) add(ctx context.Context, parts []*part) error {
	if len(parts) == 0 {
		return nil
	}
	reports := make([]Report, len(parts))
	for i, p := range parts {
		reports[i] = p.report
	}
	counts, err := x.shared.Add(ctx, reports)
	if err != nil {
		return fmt.Errorf("add to shared counts: %w", err)
	}
	for i, p := range parts {
		p.count = counts[i]
	}
	return nil
}

// read reads what a store has of each window. It has a time of its own, for when Redis took all.
func (x *Enforcer) read(ctx context.Context, parts []part, store func(context.Context, []Window) ([]int64, error)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	all := make([]*part, len(parts))
	for i := range parts {
		all[i] = &parts[i]
	}
	counts, err := ask(ctx, all, store)
	if err != nil {
		return err
	}
	for i, p := range all {
		p.count = counts[i]
	}
	return nil
}

// ask returns what a store has of each part's window.
func ask(ctx context.Context, parts []*part, store func(context.Context, []Window) ([]int64, error)) ([]int64, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	windows := make([]Window, len(parts))
	for i, p := range parts {
		windows[i] = p.report.Window
	}
	counts, err := store(ctx, windows)
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	return counts, nil
}

// finish takes the result of a settlement into the window, unless that has ended. What could not be reported is dropped:
// the report may have arrived, and a call must not count twice.
func (p *part) finish(shared, read bool, now time.Time) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	w := p.window
	if w.start != p.report.Start.Unix() {
		return
	}
	w.owed -= p.owed
	switch {
	case shared:
		w.used, w.known, w.stale = max(0, p.count+w.owed), true, false
		p.h.settledAt = now
		if p.based || p.due {
			w.comparedAt = now
		}
	case read:
		w.used, w.known, w.stale = max(w.used, p.count), true, true
		p.h.settledAt = now
	default:
		w.stale = true
	}
}

// finishSpent takes what was read into the window, unless that has ended.
func (p *part) finishSpent(read bool, now time.Time) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	if w := p.window; read && w.start == p.report.Start.Unix() {
		w.used, w.known, w.readAt = p.count, true, now
		p.h.settledAt = now
	}
}

// release lets calls that wait for the holder go on. What was counted meanwhile is due next time.
func (x *Enforcer) release(h *holder, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due = false
	h.wake()
	for m := range h.windows {
		for p := range h.windows[m] {
			if w := &h.windows[m][p]; w.owed != 0 && x.sharing(now) {
				x.enqueue(h)
				return
			}
		}
	}
}
