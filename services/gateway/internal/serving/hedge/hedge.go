// Package hedge holds the budget of hedges: second calls of requests whose first call is unusually slow. The budget is
// money, not a number of calls, since one long prompt costs as much as a hundred short ones. The decisions are pure
// functions of a State; package inference makes the calls.
package hedge

import (
	"math"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
)

const (
	// halfLife is the time in which past spend loses half its weight; see State.
	halfLife = 10 * time.Minute
	// nominalRate is the price of a token, in pico-USD, where none is known or it is free: one USD per million. The
	// budget then bounds the number of tokens.
	nominalRate = 1e6
	// outputWeight is the weight of one answer in the usual output.
	outputWeight = 0.05
	// startOutput is the usual output, in tokens, before the first answer.
	startOutput = 500
)

// State is what is left of a budget. The zero value is the budget before the first completion.
type State struct {
	// Left is what hedges may cost now. It is negative after hedges that cost more than was estimated.
	Left price.Pico
	// Spend is the cost of past completions, in pico-USD, each with the weight that is left of it at At. A budget saves up
	// at most its percentage of Spend, so that what a busy day earned is not spent in one bad minute of the night.
	Spend float64
	At    time.Time
	// Output is the usual number of output tokens of a completion; 0 before the first.
	Output float64
}

// Earn returns the state after a completion, which adds a percentage of its cost.
func (s State) Earn(cost price.Pico, output int64, percent float64, now time.Time) State {
	s = s.fade(now)
	s.Spend += float64(cost)
	s.Left = s.Left.Plus(share(float64(cost), percent))
	s.Output = s.UsualOutput()*(1-outputWeight) + float64(output)*outputWeight
	return s.capped(percent)
}

// Take returns the state after a hedge was begun, whose estimated cost is held, or false if there is not so much left.
func (s State) Take(estimate price.Pico, percent float64, now time.Time) (State, bool) {
	s = s.fade(now).capped(percent)
	if estimate <= 0 || s.Left < estimate {
		return s, false
	}
	s.Left -= estimate
	return s, true
}

// Settle returns the state after a hedge has ended: what was held is replaced by what the call that lost has cost.
func (s State) Settle(held, cost price.Pico) State {
	s.Left += held - min(cost, math.MaxInt64/4)
	return s
}

// UsualOutput returns the usual number of output tokens of a completion.
func (s State) UsualOutput() float64 {
	if s.Output == 0 {
		return startOutput
	}
	return s.Output
}

// fade applies the loss of weight since the last call.
func (s State) fade(now time.Time) State {
	if since := now.Sub(s.At); !s.At.IsZero() && since > 0 {
		s.Spend *= math.Exp2(-float64(since) / float64(halfLife))
	}
	if now.After(s.At) {
		s.At = now
	}
	return s
}

func (s State) capped(percent float64) State {
	s.Left = min(s.Left, share(s.Spend, percent))
	return s
}

func share(cost, percent float64) price.Pico {
	return price.Pico(min(cost*percent/100, math.MaxInt64/4))
}

// Worth returns what a cost counts in a budget: itself, or so many tokens at a nominal price where the model has no price
// or is free.
func Worth(cost price.Pico, tokens int64) price.Pico {
	if cost > 0 {
		return cost
	}
	return price.Pico(min(float64(tokens)*nominalRate, math.MaxInt64/4))
}

// Budget is a State that goroutines share. The zero value is ready. Safe for concurrent use.
type Budget struct {
	mu    sync.Mutex
	state State
}

// Earn adds a percentage of the cost of a completion.
func (b *Budget) Earn(cost price.Pico, output int64, percent float64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = b.state.Earn(cost, output, percent, now)
}

// Take holds the estimated cost of a hedge, and reports whether there was so much left.
func (b *Budget) Take(estimate price.Pico, percent float64, now time.Time) (ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state, ok = b.state.Take(estimate, percent, now)
	return ok
}

// Settle replaces what was held for a hedge by what it has cost.
func (b *Budget) Settle(held, cost price.Pico) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = b.state.Settle(held, cost)
}

// UsualOutput returns the usual number of output tokens of a completion.
func (b *Budget) UsualOutput() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(b.state.UsualOutput())
}
