package inference

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

const (
	// repeatPause, and at most as much again, passes before a call is repeated. maxPause is the longest Retry-After that
	// is waited for.
	repeatPause = 100 * time.Millisecond
	maxPause    = 5 * time.Second
)

// repeats reports whether the only candidate is called once more, and waits for the pause before. Where there is
// another candidate, that one is called instead. A call is repeated only if the vendor had not begun to answer, so that
// no answer is paid for twice.
func (r *round) repeats(ctx context.Context, c candidate, last bool) bool {
	if !last || r.attempts != 1 || len(r.failures) == 0 {
		return false
	}
	f := r.failures[len(r.failures)-1]
	pause := max(repeatPause+rand.N(repeatPause), f.RetryAfter) //nolint:gosec // It spreads load and protects no secret.
	if !f.repeatable || pause > maxPause {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause || time.Until(r.deadline(r.engine.Clocks)) <= pause {
		return false
	}
	if !r.engine.Health.Retry(c.Target, r.request.Organization) {
		r.engine.metrics.retry(c.Provider, false)
		return false
	}
	r.engine.metrics.retry(c.Provider, true)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	r.upstream += pause
	return true
}

// repeatable reports whether the same call may be made again: it did not reach the vendor, or the vendor had no answer
// and did not say that a retry is pointless.
func repeatable(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	switch {
	case !ok, e.Unsupported, e.ShouldRetry != nil && !*e.ShouldRetry:
		return false
	case e.Status == 0:
		// After a clock ran out the request has waited long enough.
		return e.Class == apierr.ClassTransient && !errors.Is(err, errAnswer) && !errors.Is(err, errFirstToken)
	case e.Status == http.StatusRequestTimeout, e.Status >= http.StatusInternalServerError:
		return e.Class == apierr.ClassTransient || e.Class == apierr.ClassServerError
	}
	return false
}
