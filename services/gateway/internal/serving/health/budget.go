package health

import "sync/atomic"

// A call earns a share of a retry, up to a reserve: retries add a tenth to a
// vendor's load at the most, however many of its calls fail.
const (
	retryCost    = 10
	retryReserve = 10 * retryCost
)

// budget bounds the repeats of calls to one vendor. It knows no time: a vendor
// that gets no calls gets no retries either.
type budget struct{ spent atomic.Int64 }

// earn counts a call that is no retry.
func (b *budget) earn() {
	for {
		spent := b.spent.Load()
		if spent == 0 || b.spent.CompareAndSwap(spent, spent-1) {
			return
		}
	}
}

// spend takes one retry, if there is one left.
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
