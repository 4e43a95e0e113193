package health

import (
	"context"
	"sync/atomic"
	"time"

	failsafe "github.com/failsafe-go/failsafe-go/bulkhead"
)

// bulkhead bounds the calls to one vendor: when it hangs, it holds so many
// requests and no more.
type bulkhead struct {
	permits  failsafe.Bulkhead[any]
	limit    int
	queue    time.Duration
	inFlight atomic.Int64
	waiting  atomic.Int64
	rejected atomic.Uint32
}

func newBulkhead(limit int, queue time.Duration) *bulkhead {
	return &bulkhead{permits: failsafe.New[any](uint(limit)), limit: limit, queue: queue}
}

// acquire takes a permit, or waits its short time with a few others.
func (b *bulkhead) acquire(ctx context.Context) bool {
	if !b.permits.TryAcquirePermit() && !b.wait(ctx) {
		b.rejected.Add(1)
		return false
	}
	b.inFlight.Add(1)
	return true
}

func (b *bulkhead) wait(ctx context.Context) bool {
	defer b.waiting.Add(-1)
	if b.waiting.Add(1) > int64(max(b.limit/4, 1)) {
		return false
	}
	return b.permits.AcquirePermitWithMaxWait(ctx, b.queue) == nil
}

func (b *bulkhead) release() {
	b.inFlight.Add(-1)
	b.permits.ReleasePermit()
}
