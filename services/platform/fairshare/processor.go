package fairshare

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// The share of the processors that one organization's work may use: at most processorShare percent of them at once, and
// in the long run processorRate percent, with processorBurst in advance. processorWait is how long work waits for its
// turn.
const (
	processorShare = 50
	processorRate  = 10
	processorBurst = 200 * time.Millisecond
	processorWait  = 2 * time.Second
	processorBusy  = "too many checks are in progress; try again later"
)

// maxAllowances bounds the organizations whose use is remembered. Those that were idle for longest are forgotten first.
const maxAllowances = 10_000

// Processors divides the processors between organizations for work that takes milliseconds, such as checks against
// schemas. Safe for concurrent use.
type Processors struct {
	places *Places
	count  int // of processors

	mu         sync.Mutex
	allowances *simplelru.LRU[string, *allowance]
}

// NewProcessors returns a place for each processor that the process may use, but at least two places. One organization
// may hold half of them. In the long run its work may take a tenth of the processors' time, with 200 ms in advance.
func NewProcessors() *Processors { return newProcessors(max(2, runtime.GOMAXPROCS(0))) }

func newProcessors(count int) *Processors {
	p := &Processors{places: NewPlaces(count, processorShare), count: count}
	p.allowances, _ = simplelru.NewLRU[string, *allowance](maxAllowances, nil) // It fails for a size below 1 only.
	return p
}

// Do waits for the organization's turn and runs work. If the turn doesn't come within two seconds, Do returns an
// *apierr.Error: 429 with Retry-After. If ctx ends first, Do returns the context's cause.
func (p *Processors) Do(ctx context.Context, organization string, work func()) error {
	a := p.allowance(organization)
	if a.debt(time.Now()) > 0 {
		if err := a.waitWithin(ctx, processorWait); err != nil {
			return err
		}
		defer a.pass()
	}
	if err := p.places.AcquireWithin(ctx, organization, processorWait, processorBusy); err != nil {
		return err
	}
	defer p.places.Release(organization)
	begun := time.Now()
	defer func() { a.spend(time.Now(), time.Since(begun)) }()
	work()
	return nil
}

// allowance returns what an organization may use.
func (p *Processors) allowance(organization string) *allowance {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.allowances.Get(organization)
	if !ok {
		perSecond := rate.Limit(time.Second.Microseconds()) * rate.Limit(p.count) * processorRate / 100
		a = &allowance{left: rate.NewLimiter(perSecond, int(processorBurst.Microseconds())), turn: make(chan struct{}, 1)}
		p.allowances.Add(organization, a)
	}
	return a
}

// allowance is the processor time that an organization may use.
type allowance struct {
	left *rate.Limiter // in microseconds
	// turn is held by the work that runs next while the organization is in debt.
	turn chan struct{}
}

// debt returns how long the organization has to wait until it may use more time.
func (a *allowance) debt(now time.Time) time.Duration { return a.left.ReserveN(now, 0).DelayFrom(now) }

// spend records the time that work took.
func (a *allowance) spend(now time.Time, took time.Duration) {
	a.left.ReserveN(now, int(min(took, processorBurst).Microseconds()))
}

// waitWithin waits until it is the caller's turn and the organization has no debt. The caller then calls pass. It
// returns the same errors as [Places.AcquireWithin].
func (a *allowance) waitWithin(ctx context.Context, limit time.Duration) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	select {
	case a.turn <- struct{}{}:
	case <-deadline.C:
		return busyError(processorBusy)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	paid := time.NewTimer(a.debt(time.Now()))
	defer paid.Stop()
	select {
	case <-paid.C:
		return nil
	case <-deadline.C:
		a.pass()
		return busyError(processorBusy)
	case <-ctx.Done():
		a.pass()
		return context.Cause(ctx)
	}
}

// pass lets the organization's next work have its turn.
func (a *allowance) pass() { <-a.turn }
