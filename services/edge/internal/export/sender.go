package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// pageSize is the number of entries that a cursor moves over at once.
	pageSize = 100
	// minBackoff and maxBackoff bound the wait after failures in a row, which doubles.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
)

// sender sends to one destination.
type sender struct {
	*Worker

	destination Destination
	vendor      vendor
	failures    int
}

// run sends until ctx ends: page after page, then after the interval, after a failure later.
func (s *sender) run(ctx context.Context) error {
	for {
		var more bool
		err := lifecycle.Protect(ctx, "export to "+s.destination.Name, func() (err error) {
			more, err = s.round(ctx, time.Now())
			return err
		})
		wait := s.next(ctx, more, err)
		if wait == 0 && ctx.Err() == nil {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// next returns how long to wait after a round. The first failure of a row is logged, and the recovery.
func (s *sender) next(ctx context.Context, more bool, err error) time.Duration {
	name := slog.String("destination", s.destination.Name)
	switch {
	case err != nil && !errors.Is(err, ErrFence):
		if s.failures++; s.failures == 1 && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "export is failing", name, slog.String("error", err.Error()))
		}
		return after(err, backoff(s.failures))
	case s.failures > 0:
		s.failures = 0
		s.Log.InfoContext(ctx, "export recovered", name)
	}
	if more {
		return 0
	}
	return s.Settings.Every
}

// backoff returns the wait after a number of failures in a row.
func backoff(failures int) time.Duration {
	return min(minBackoff<<min(failures-1, 16), maxBackoff)
}

// round moves each cursor of the destination over a page, and reports whether a source has more.
func (s *sender) round(ctx context.Context, now time.Time) (more bool, err error) {
	for _, source := range Sources {
		if s.destination.reads(source) {
			if err := s.Store.Open(ctx, s.destination.Name, source, now.UTC().Truncate(time.Hour)); err != nil {
				return false, fmt.Errorf("open cursor: %w", err)
			}
		}
	}
	cursors, err := s.Store.Cursors(ctx, s.destination.Name)
	if err != nil {
		return false, fmt.Errorf("read cursors: %w", err)
	}
	var errs []error
	for _, c := range cursors {
		if s.Pagers[c.Source] == nil || !s.destination.reads(c.Source) {
			continue // of settings of before
		}
		end, held, err := s.step(ctx, c)
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

// step moves a cursor over a page, under the destination's lease. It may take as long as that.
func (s *sender) step(ctx context.Context, c Cursor) (end, held bool, err error) {
	fence, held, err := s.Store.Lease(ctx, "destination/"+s.destination.Name, s.Holder, s.Settings.Lease)
	if err != nil || !held {
		return true, false, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.Settings.Lease)
	defer cancel()
	p, err := s.deliver(bounded, c)
	if err != nil {
		err = fmt.Errorf("export %s: %w", c.Source, err)
		if ctx.Err() == nil {
			err = errors.Join(err, s.Store.Fail(ctx, c.ID, reason(err.Error())))
		}
		return true, true, err
	}
	if p.Page.Next == c.Position && c.Until.IsZero() && c.Failure == "" {
		return p.Page.End, true, nil
	}
	if err := s.Store.Advance(ctx, fence, p); err != nil {
		return true, !errors.Is(err, ErrFence), fmt.Errorf("advance the cursor of %s: %w", c.Source, err)
	}
	s.Recorder.Exported(ctx, s.destination.Name, len(p.Taken), len(p.Refused))
	return p.Page.End, true, nil
}

// deliver reads a page and has the destination take or refuse all of its events.
func (s *sender) deliver(ctx context.Context, c Cursor) (Progress, error) {
	page, err := s.Pagers[c.Source].Page(ctx, c, pageSize)
	if err != nil {
		return Progress{}, err
	}
	p := Progress{Cursor: c, Page: page}
	var events []Event
	for _, e := range page.Entries {
		events = append(events, s.destination.Events(c.Source, e)...)
	}
	for len(events) > 0 {
		n := min(len(events), s.vendor.batch())
		refused, err := s.vendor.send(ctx, events[:n])
		if err != nil {
			return Progress{}, err
		}
		p.Refused = append(p.Refused, refused...)
		p.Taken = append(p.Taken, accepted(events[:n], refused)...)
		events = events[n:]
	}
	return p, nil
}

// accepted returns the events that are not refused.
func accepted(events []Event, refused []Refusal) (taken []Event) {
	out := make(map[string]bool, len(refused))
	for _, r := range refused {
		out[r.Identifier] = true
	}
	for _, e := range events {
		if !out[e.Identifier] {
			taken = append(taken, e)
		}
	}
	return taken
}
