package health

import "sync/atomic"

// A call earns a tenth of a retry, up to a reserve of ten: retries add at most a tenth to a vendor's load, however many
// of its calls fail.
const (
	retryCost    = 10
	retryReserve = 10 * retryCost
)

// budget bounds the retries to one vendor. It does not depend on time: a vendor that gets no calls gets no retries
// either.
type budget struct{ spent atomic.Int64 }

// earn counts a call that is not a retry.
func (b *budget) earn() {
	for {
		spent := b.spent.Load()
		if spent == 0 || b.spent.CompareAndSwap(spent, spent-1) {
			return
		}
	}
}

// spend takes one retry and reports whether there was one left.
func (b *budget) spend() bool {
	for {
		spent := b.spent.Load()
		if spent+retryCost > retryReserve {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+retryCost) {
			return true
		}
	}
}
