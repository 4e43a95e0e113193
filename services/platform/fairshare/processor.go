package fairshare

import (
	"context"
	"runtime"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// processorShare is the percentage of the processors that one organization's work may keep busy, and processorWait how
// long work waits for its turn.
const (
	processorShare = 50
	processorWait  = 2 * time.Second
)

// Processors divides the processors between organizations for work that takes milliseconds, such as checks against
// schemas. Safe for concurrent use.
type Processors struct{ places *Places }

// NewProcessors returns as many places as the process may use processors, two at least, of which one organization may
// have half.
func NewProcessors() *Processors {
	return &Processors{NewPlaces(max(2, runtime.GOMAXPROCS(0)), processorShare)}
}

// Do does work of an organization in its turn. If the turn doesn't come within two seconds, the error is an
// *apierr.Error: 429 with Retry-After. If ctx ends first, it is the context's cause.
func (p *Processors) Do(ctx context.Context, organization string, work func()) error {
	waiting, cancel := context.WithTimeout(ctx, processorWait)
	defer cancel()
	release, err := p.places.Acquire(waiting, organization)
	switch {
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case err != nil:
		e := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "too many checks are under way; try again")
		e.RetryAfter = time.Second
		return e
	}
	defer release()
	work()
	return nil
}
