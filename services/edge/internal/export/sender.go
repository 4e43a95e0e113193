package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// look is the interval at which a sender that waits looks for a full page.
	look = time.Second
	// minBackoff and maxBackoff bound the wait after failures in a row, which doubles.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
)

// sender sends to one destination.
type sender struct {
	*Worker

	destination Destination
	vendor      vendor
	// failures counts the failed rounds in a row. stalled counts those that also settled no event.
	failures, stalled int
	turns             turns
	// opened reports whether the cursors that go on exist.
	opened bool
	// positions are those behind the last pages of the sources, while this process has the lease.
	positions map[Source]string
}

// run sends until ctx ends: page after page, then after the interval, after a failure later.
func (s *sender) run(ctx context.Context) error {
	for {
		var more bool
		err := lifecycle.Protect(ctx, "export to "+s.destination.Name, func() (err error) {
			more, err = s.round(ctx, time.Now())
			return err
		})
		if !s.rest(ctx, s.next(ctx, more, err), err == nil) {
			return nil
		}
	}
}

// rest waits; if it may end early, then only until a full page waits. It reports false when ctx has ended.
func (s *sender) rest(ctx context.Context, wait time.Duration, early bool) bool {
	end := time.Now().Add(wait)
	for left := wait; left > 0 && (!early || !s.full(ctx)); left = time.Until(end) {
		timer := time.NewTimer(min(left, look))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
	return ctx.Err() == nil
}

// full reports whether a source is known to have a full page.
func (s *sender) full(ctx context.Context) bool {
	for source, position := range s.positions {
		if s.Pagers[source].Waiting(ctx, position) >= s.destination.Kind.page() {
			return true
		}
	}
	return false
}

// next returns how long to wait after a round. The first failure of a row is logged, and the recovery.
func (s *sender) next(ctx context.Context, more bool, err error) time.Duration {
	name := slog.String("destination", s.destination.Name)
	switch {
	case err != nil && !errors.Is(err, ErrFence):
		if s.failures++; s.failures == 1 && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "export is failing", name, slog.String("error", reason(err.Error())))
		}
		s.stalled++
		return after(err, backoff(s.stalled))
	case s.failures > 0:
		s.failures, s.stalled = 0, 0
		s.Log.InfoContext(ctx, "export recovered", name)
	}
	if more {
		return 0
	}
	return s.Settings.Every
}

// backoff returns the wait after a number of failures in a row that settled no event.
func backoff(failures int) time.Duration {
	return min(minBackoff<<min(failures-1, 16), maxBackoff)
}

// round moves each cursor of the destination over a page, and reports whether a source has more.
func (s *sender) round(ctx context.Context, now time.Time) (more bool, err error) {
	if err := s.open(ctx, now); err != nil {
		return false, fmt.Errorf("open cursor: %w", err)
	}
	cursors, err := s.Store.Cursors(ctx, s.destination.Name)
	if err != nil {
		return false, fmt.Errorf("read cursors: %w", err)
	}
	s.positions = make(map[Source]string)
	var errs []error
	for _, c := range cursors {
		if s.Pagers[c.Source] == nil || !s.destination.reads(c.Source) {
			continue // of settings of before
		}
		end, held, err := s.step(ctx, c, now)
		if !held {
			return false, errors.Join(append(errs, err)...)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		more = more || !end
	}
	return more, errors.Join(errs...)
}

// open makes the cursors that go on, once.
func (s *sender) open(ctx context.Context, now time.Time) error {
	for _, source := range Sources {
		if s.opened || !s.destination.reads(source) {
			continue
		}
		if err := s.Store.Open(ctx, s.destination.Name, source, now.UTC().Truncate(time.Hour)); err != nil {
			return err
		}
	}
	s.opened = true
	return nil
}

// step moves a cursor over a page, under the destination's lease. It may take as long as that.
func (s *sender) step(ctx context.Context, c Cursor, now time.Time) (end, held bool, err error) {
	fence, held, err := s.Store.Lease(ctx, "destination/"+s.destination.Name, s.Holder, s.Settings.Lease)
	if err != nil || !held {
		return true, false, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.Settings.Lease)
	defer cancel()
	p, err := s.deliver(bounded, fence, c, now)
	if err != nil {
		err = fmt.Errorf("export %s: %w", c.Source, err)
		if len(p.Taken)+len(p.Refused) > 0 {
			s.stalled = 0
		}
		if ctx.Err() == nil {
			err = errors.Join(err, s.Store.Fail(ctx, fence, p, reason(err.Error())))
			s.Recorder.Exported(ctx, s.destination.Name, len(p.Taken), len(p.Refused))
		}
		return true, true, err
	}
	if c.Until.IsZero() {
		s.positions[c.Source] = p.Page.Next
		if len(p.Page.Entries) == 0 && (c.Position != "" || p.Page.Next == "") && c.Failure == "" {
			return p.Page.End, true, nil
		}
	}
	if err := s.Store.Advance(ctx, fence, p); err != nil {
		return true, !errors.Is(err, ErrFence), fmt.Errorf("advance the cursor of %s: %w", c.Source, err)
	}
	s.Recorder.Exported(ctx, s.destination.Name, len(p.Taken), len(p.Refused))
	return p.Page.End, true, nil
}

// deliver reads a page and sends its events. Without an error, the destination has taken or refused all of them; after
// one, the Progress holds those that it has taken or refused so far.
func (s *sender) deliver(ctx context.Context, fence int64, c Cursor, now time.Time) (Progress, error) {
	p := Progress{Cursor: c}
	var err error
	if p.Page, err = s.Pagers[c.Source].Page(ctx, c, s.destination.Kind.page()); err != nil {
		return p, err
	}
	events, settled, err := pageEvents(ctx, s.Store, s.destination, c, p.Page)
	if err != nil {
		return p, err
	}
	if s.destination.Kind.forgets(c.UnsureSince, now) {
		p.Refused = uncertain(events, "sent without an answer", c.UnsureSince, "too long ago to send it again")
		return p, nil
	}
	if len(events) > 0 {
		if err := s.Store.Begin(ctx, fence, c, now); err != nil {
			return p, fmt.Errorf("begin a page: %w", err)
		}
	}
	s.turns.order(events)
	p.Taken = make([]Event, 0, len(events))
	for len(events) > 0 {
		n, aside := min(len(events), s.vendor.batch()), s.setsAside(ctx, c, settled, p.Taken, now)
		done, err := s.vendor.send(ctx, events[:n])
		s.turns.note(done)
		p.add(done, s.destination, cmp.Or(c.UnsureSince, now))
		if aside && len(done.failing) > 0 {
			why := "while the destination took other events"
			p.Refused = append(p.Refused, uncertain(done.failing, "failed alone", c.UnsureSince, why)...)
			events = unsettled(events, p.Settled())
			continue
		}
		if err != nil {
			if _, lost := errors.AsType[*lostError](err); lost && c.UnsureSince.IsZero() {
				p.Cursor.UnsureSince = now
			}
			return p, err
		}
		events = events[n:]
	}
	return p, nil
}

// pageEvents returns the events of a cursor's page that the destination has not settled yet, and those that it has. For a
// back-fill of refused events it returns only such events.
func pageEvents(ctx context.Context, from refusals, d Destination, c Cursor, page Page) (open, settled []Event, err error) {
	events := make([]Event, 0, len(page.Entries))
	for _, e := range page.Entries {
		events = d.appendEvents(events, c.Source, e)
	}
	if c.OnlyRefused && len(events) > 0 {
		if events, err = onlyRefused(ctx, from, d.Name, events); err != nil {
			return nil, nil, err
		}
	}
	if len(c.Settled) == 0 {
		return events, nil, nil
	}
	open = unsettled(events, c.Settled)
	return open, unsettled(events, identifiers(open)), nil
}

// unsettled returns the events whose identifiers are not in settled.
func unsettled(events []Event, settled []string) []Event {
	known := set(settled)
	return slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return known[e.Identifier] })
}

// refusals finds the events that a destination refused.
type refusals interface {
	Refused(ctx context.Context, destination string, identifiers []string) ([]string, error)
}

// onlyRefused returns the events that a destination refused.
func onlyRefused(ctx context.Context, from refusals, destination string, events []Event) ([]Event, error) {
	refused, err := from.Refused(ctx, destination, identifiers(events))
	if err != nil {
		return nil, fmt.Errorf("find refused events: %w", err)
	}
	wanted := set(refused)
	return slices.DeleteFunc(events, func(e Event) bool { return !wanted[e.Identifier] }), nil
}

// set returns the set of a list's members.
func set(list []string) map[string]bool {
	members := make(map[string]bool, len(list))
	for _, one := range list {
		members[one] = true
	}
	return members
}
