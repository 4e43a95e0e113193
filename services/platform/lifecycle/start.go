package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Start calls build, which opens resources and registers their OnClose steps. If build fails, Start runs the registered
// steps and returns all errors.
func (r *Runner) Start(ctx context.Context, build func(context.Context) error) error {
	err := build(ctx)
	if err == nil {
		return nil
	}
	slices.Reverse(r.closes)
	closed := r.steps(context.WithoutCancel(ctx), "close", r.closes, time.Now().Add(closeGrace))
	return errors.Join(append([]error{err}, closed...)...)
}
