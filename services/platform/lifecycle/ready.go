package lifecycle

import (
	"context"
	"sync"
	"time"
)

// checkTimeout bounds each readiness check.
const checkTimeout = 2 * time.Second

// CheckResult is what one readiness check said.
type CheckResult struct {
	// Name is the one the check was registered under.
	Name string
	// Err is nil when the check passed. It may be logged, not shown.
	Err error
}

// Check registers a readiness check, such as a ping of the database.
func (r *Runner) Check(name string, check func(context.Context) error) {
	r.checks = append(r.checks, task{name, check})
}

// Ready runs all checks at once, each for two seconds at the most, and gives
// their results in order of registration. The service is ready when none has
// an error. The first result, "lifecycle", is ErrDraining from the start of
// the drain on.
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
