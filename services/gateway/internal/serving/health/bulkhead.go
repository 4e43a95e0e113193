package health

import (
	"context"
	"sync/atomic"
	"time"

	failsafe "github.com/failsafe-go/failsafe-go/bulkhead"

	"switchyard.dev/services/platform/fairshare"
)

// bulkhead bounds the calls in flight at one vendor, so that a vendor that hangs holds no more requests than that. One
// organization may have only its share of them.
type bulkhead struct {
	permits  failsafe.Bulkhead[any]
	parts    *fairshare.Pool
	limit    int
	queue    time.Duration
	inFlight atomic.Int64
	waiting  atomic.Int64
	rejected atomic.Uint32
}

func newBulkhead(limit, percent int, queue time.Duration) *bulkhead {
	return &bulkhead{
		permits: failsafe.New[any](uint(limit)), parts: fairshare.New(int64(limit), percent), limit: limit, queue: queue,
	}
}

// acquire takes a permit for an organization's call, or waits for at most the queue time with a bounded number of other
// calls, if the call may wait. An empty organization has no share to keep to. The returned cause is empty when the permit was granted.
func (b *bulkhead) acquire(ctx context.Context, organization string, mayWait bool) Cause {
	if !b.permits.TryAcquirePermit() {
		if organization != "" && b.parts.HeldBy(organization) >= b.parts.Share() { // It takes no place in the queue.
			b.rejected.Add(1)
			return CauseShare
		}
		if !mayWait || !b.wait(ctx) {
			b.rejected.Add(1)
			return CauseFull
		}
	}
	if organization != "" && !b.parts.Acquire(organization, 1) {
		b.permits.ReleasePermit()
		b.rejected.Add(1)
		return CauseShare
	}
	b.inFlight.Add(1)
	return ""
}

// full reports whether an organization's call would have to wait or be refused.
func (b *bulkhead) full(organization string) bool {
	return b.inFlight.Load() >= int64(b.limit) || organization != "" && b.parts.Full(organization)
}

// spares reports whether a quarter of the permits is free, and the organization has some of its share left.
func (b *bulkhead) spares(organization string) bool {
	return 4*b.inFlight.Load() < 3*int64(b.limit) && !b.full(organization)
}

func (b *bulkhead) wait(ctx context.Context) bool {
	defer b.waiting.Add(-1)
	if b.waiting.Add(1) > int64(max(b.limit/4, 1)) {
		return false
	}
	return b.permits.AcquirePermitWithMaxWait(ctx, b.queue) == nil
}

func (b *bulkhead) release(organization string) {
	b.inFlight.Add(-1)
	if organization != "" {
		b.parts.Release(organization, 1)
	}
	b.permits.ReleasePermit()
}
