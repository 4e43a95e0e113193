package fairshare

import (
	"context"
	"runtime"
	"time"
)

// processorShare is the percentage of the processors that one organization's work may keep busy. processorWait is how
// long work waits for its turn.
const (
	processorShare = 50
	processorWait  = 2 * time.Second
)

// Processors divides the processors between organizations for work that takes milliseconds, such as checks against
// schemas. Safe for concurrent use.
type Processors struct{ places *Places }

// NewProcessors returns a place for each processor that the process may use, but at least two places. One organization
// may hold half of them.
func NewProcessors() *Processors {
	return &Processors{NewPlaces(max(2, runtime.GOMAXPROCS(0)), processorShare)}
}

// Do waits for the organization's turn and runs work. If the turn doesn't come within two seconds, Do returns an
// *apierr.Error: 429 with Retry-After. If ctx ends first, Do returns the context's cause.
func (p *Processors) Do(ctx context.Context, organization string, work func()) error {
	err := p.places.AcquireWithin(ctx, organization, processorWait, "too many checks are in progress; try again later")
	if err != nil {
		return err
	}
	defer p.places.Release(organization)
	work()
	return nil
}
