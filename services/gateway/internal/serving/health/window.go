package health

import (
	"sync/atomic"
	"time"
)

// window counts calls and failures of a recent span in time slots. Times are since the monitor's base. It is safe for
// concurrent use and takes no lock. It replaces failsafe-go's circuit breaker, which also opened on a success, so that
// the next failure opened the circuit of a vendor that failed one call in five. The bulkhead is failsafe-go's.
type window struct {
	slot time.Duration
	// words hold one slot each: its number, its calls and its failures packed into one word, so that a call costs one
	// compare-and-swap.
	words []atomic.Uint64
}

const (
	countBits = 20
	countMask = 1<<countBits - 1
)

// newWindow returns a window that covers span with the given number of slots.
func newWindow(span time.Duration, slots int) window {
	return window{max(span/time.Duration(slots), 1), make([]atomic.Uint64, slots)}
}

// add counts a call.
func (w *window) add(at time.Duration, failed bool) {
	number := w.number(at)
	word := &w.words[number%uint64(len(w.words))]
	for {
		old := word.Load()
		next := old
		if old>>(2*countBits) != number {
			next = number << (2 * countBits)
		}
		if next>>countBits&countMask < countMask {
			if next += 1 << countBits; failed {
				next++
			}
		}
		if word.CompareAndSwap(old, next) {
			return
		}
	}
}

// sum returns the calls of the last span and those that failed. The present slot is only partly filled.
func (w *window) sum(at, span time.Duration) (calls, failures int) {
	last := w.number(at)
	first := last - min(uint64(span/w.slot), last) + 1
	for i := range w.words {
		word := w.words[i].Load()
		if number := word >> (2 * countBits); number >= first && number <= last {
			calls += int(word >> countBits & countMask)
			failures += int(word & countMask)
		}
	}
	return calls, failures
}

// tally returns sum as a Tally.
func (w *window) tally(at, span time.Duration) Tally {
	calls, failures := w.sum(at, span)
	return Tally{calls, failures}
}

// clear removes all counts.
func (w *window) clear() {
	for i := range w.words {
		w.words[i].Store(0)
	}
}

// number returns the number of the slot at a moment; it has 24 bits in a word.
func (w *window) number(at time.Duration) uint64 { return (uint64(at/w.slot) + 1) & (1<<24 - 1) }
