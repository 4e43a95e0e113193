package lifecycle

import (
	"context"
	"sync"
	"time"
)

// checkTimeout bounds each readiness check.
const checkTimeout = 2 * time.Second

// CheckResult is the result of one readiness check.
type CheckResult struct {
	// Name is the name given to Check.
	Name string
	// Err is nil if the check passed. It may be logged but not shown to callers.
	Err error
}

// Check registers a readiness check, such as a ping of the database.
func (r *Runner) Check(name string, check func(context.Context) error) {
	r.checks = append(r.checks, task{name, check})
}

// Ready runs all checks concurrently, each for at most two seconds, and returns their results in order of registration.
// The service is ready if no result has an error. The first result, "lifecycle", is ErrDraining once the drain has
// begun.
func (r *Runner) Ready(ctx context.Context) []CheckResult {
	results := make([]CheckResult, len(r.checks))
	var wg sync.WaitGroup
	for i, check := range r.checks {
		wg.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, overrun(checkTimeout))
			defer cancel()
			results[i] = CheckResult{Name: check.name, Err: bounded(ctx, check, 0)}
		})
	}
	wg.Wait()
	return results
}
