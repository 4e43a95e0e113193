package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// running holds the parts of a service while they run.
type running struct {
	names  map[int]string // of the parts that have not returned
	ended  chan ended
	cancel context.CancelCauseFunc
	errs   []error
}

type ended struct {
	part int
	err  error
}

func (r *Runner) start(ctx context.Context) *running {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &running{names: map[int]string{}, ended: make(chan ended, len(r.parts)), cancel: cancel}
	for i, part := range r.parts {
		p.names[i] = part.name
		go func() { p.ended <- ended{i, failure(ctx, part)} }()
	}
	return p
}

// failure runs a part and returns its error or panic, but not the error or cause of a ctx that has ended.
func failure(ctx context.Context, part task) error {
	err := part.call(ctx)
	if err == nil || ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return fmt.Errorf("part %s: %w", part.name, err)
}

// wait blocks until ctx is done or a part fails, and returns which as an error.
func (p *running) wait(ctx context.Context) error {
	for len(p.errs) == 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("asked to stop: %w", context.Cause(ctx))
		case e := <-p.ended:
			p.record(e)
		}
	}
	return p.errs[0]
}

// stop ends the parts' context with reason as its cause and waits for the parts until the deadline, at least one
// second. It returns the errors of all parts.
func (p *running) stop(reason error, deadline time.Time) []error {
	p.cancel(reason)
	late := time.After(max(time.Until(deadline), minStep))
	for len(p.names) > 0 {
		select {
		case e := <-p.ended:
			p.record(e)
		case <-late:
			for _, i := range slices.Sorted(maps.Keys(p.names)) {
				p.errs = append(p.errs, fmt.Errorf("part %s: still running when the grace ended", p.names[i]))
			}
			return p.errs
		}
	}
	return p.errs
}

func (p *running) record(e ended) {
	delete(p.names, e.part)
	if e.err != nil {
		p.errs = append(p.errs, e.err)
	}
}
