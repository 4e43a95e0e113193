package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"
)

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
