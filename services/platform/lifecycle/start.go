package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Step is one named step of a start.
type Step struct {
	Name string
	Do   func(context.Context) error
}

// Build runs the steps of a start in turn. They register what they open on the
// Runner; when one fails, what the earlier ones registered is closed again, and
// the error names the step.
func (r *Runner) Build(ctx context.Context, steps ...Step) error {
	for _, s := range steps {
		if err := s.Do(ctx); err != nil {
			slices.Reverse(r.closes)
			closed := r.steps(context.WithoutCancel(ctx), "close", r.closes, time.Now().Add(closeGrace))
			return errors.Join(append([]error{fmt.Errorf("%s: %w", s.Name, err)}, closed...)...)
		}
	}
	return nil
}

// Start runs build, which registers what it opens. When build fails, what it has registered is closed again.
func (r *Runner) Start(ctx context.Context, build func(context.Context) error) error {
	err := build(ctx)
	if err == nil {
		return nil
	}
	slices.Reverse(r.closes)
	closed := r.steps(context.WithoutCancel(ctx), "close", r.closes, time.Now().Add(closeGrace))
	return errors.Join(append([]error{err}, closed...)...)
}
