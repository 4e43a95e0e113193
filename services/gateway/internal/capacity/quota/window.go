package quota

import "time"

// The window has one slot for each second of a minute, and one more: the oldest slot counts whole, so that no minute,
// wherever it begins, holds more than the sum of the window.
const (
	slots = 61
	span  = slots * time.Second
)

// Amount is what calls take of a limit.
type Amount struct{ Tokens, Requests int64 }

func (a Amount) plus(b Amount) Amount { return Amount{a.Tokens + b.Tokens, a.Requests + b.Requests} }

func (a Amount) minus(b Amount) Amount { return Amount{a.Tokens - b.Tokens, a.Requests - b.Requests} }

func (a Amount) max(b Amount) Amount {
	return Amount{max(a.Tokens, b.Tokens), max(a.Requests, b.Requests)}
}

// Window is a sliding sum of amounts over slots of a second, which are numbered by Unix time. The zero Window is empty.
type Window struct {
	newest int64
	sum    Amount
	bySlot [slots]Amount
}

// advance drops the slots that are too old at a slot.
func (w *Window) advance(slot int64) {
	if slot <= w.newest {
		return
	}
	if slot-w.newest >= slots {
		*w = Window{newest: slot}
		return
	}
	for w.newest < slot {
		w.newest++
		oldest := &w.bySlot[w.newest%slots]
		w.sum = w.sum.minus(*oldest)
		*oldest = Amount{}
	}
}

// Add adds an amount to a slot, and does nothing if that slot has aged out. It reports whether it did add.
func (w *Window) Add(slot int64, a Amount) bool {
	w.advance(slot)
	if slot <= w.newest-slots {
		return false
	}
	at := &w.bySlot[slot%slots]
	*at = at.plus(a)
	w.sum = w.sum.plus(a)
	return true
}

// At returns the amount of a slot.
func (w *Window) At(slot int64) Amount {
	if slot > w.newest || slot <= w.newest-slots {
		return Amount{}
	}
	return w.bySlot[slot%slots]
}

// used returns the sum at a slot.
func (w *Window) used(slot int64) Amount {
	w.advance(slot)
	return w.sum
}

// outlook is the sum of a window now and, if nothing is added, at the beginning of each second that follows.
type outlook [slots + 1]Amount

// outlook returns the outlook at a slot.
func (w *Window) outlook(slot int64) (o outlook) {
	o[0] = w.used(slot)
	for i := 1; i <= slots; i++ {
		o[i] = o[i-1].minus(w.bySlot[(w.newest+int64(i))%slots])
	}
	return o
}

// never is the wait for what will not fit even when the window is empty.
const never = span + time.Second

// first returns the time until fits accepts a second of an outlook, and never if it accepts none. Second 0 is now.
func first(now time.Time, fits func(second int) bool) time.Duration {
	if fits(0) {
		return 0
	}
	for second := 1; second <= slots; second++ {
		if fits(second) {
			return time.Unix(now.Unix()+int64(second), 0).Sub(now)
		}
	}
	return never
}

// paceSlack is how much faster than the pace of a window callers may go who wait, so that small gaps are made up for.
const paceSlack = 1.2

// pace returns the tokens per second that can be granted steadily: the largest rate at which the window, as its slots
// age out, never becomes full.
func (o *outlook) pace(limit int64) float64 {
	return pace(float64(limit), func(second int) int64 { return limit - o[second].Tokens })
}

// pace returns the largest rate, at most best, at which what is free after so many seconds is never exceeded.
func pace(best float64, free func(second int) int64) float64 {
	for second := 1; second <= slots; second++ {
		best = min(best, float64(free(second))/float64(second))
	}
	return max(0, best*paceSlack)
}

// minPause is the shortest wait of a caller that is granted steadily.
const minPause = 20 * time.Millisecond

// paced returns how long a caller that waits has to pause. It may go on while half of the limit is free; beyond that,
// the grants of about the last second are kept at the pace. Otherwise waiting callers would use up the window at once
// and all wait for the rest of the minute, every minute.
func (w *Window) paced(limit int64, now time.Time) time.Duration {
	slot := now.Unix()
	if w.used(slot).Tokens*2 <= limit {
		return 0
	}
	o := w.outlook(slot)
	return w.pauseAt(o.pace(limit), now)
}

// pauseAt returns how long a caller has to pause so that the grants of about the last second stay at a pace.
func (w *Window) pauseAt(pace float64, now time.Time) time.Duration {
	passed := float64(now.Nanosecond()) / float64(time.Second)
	last := float64(max(0, w.At(w.newest-1).Tokens))
	over := float64(w.At(w.newest).Tokens) + last*(1-passed) - pace
	switch left := 1 - passed; {
	case over < 0:
		return 0
	case over < last*left:
		return max(minPause, time.Duration(over/last*float64(time.Second)))
	default:
		return max(minPause, time.Duration(left*float64(time.Second)))
	}
}
