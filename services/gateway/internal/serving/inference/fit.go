package inference

import (
	"fmt"
	"sort"

	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/apierr"
)

// limitField is the field that limits the output where a request's form has no name of its own for it.
const limitField = "max_tokens"

// fieldBytes is more than the field that limits the output adds to a body.
const fieldBytes = 64

// explain returns the refusal of a request that a ceiling does not cover, with the limit of the output that it would
// cover now, by the name that the field has in the caller's form.
func (x *execution) explain(short *budget.ShortError) *apierr.Error {
	r := x.request
	if !r.limitsOutput() {
		return short.Refusal
	}
	refusal := *short.Refusal
	if refusal.At = r.Bounds.LimitField; refusal.At == "" {
		refusal.At = limitField
	}
	if limit := x.fit(short.Room); limit > 0 {
		refusal.Text += fmt.Sprintf("; it covers %s of at most %d now", refusal.At, limit)
	} else {
		refusal.Text += fmt.Sprintf("; no %s is small enough now: shorten the input, or have the limit raised", refusal.At)
	}
	return &refusal
}

// limitsOutput reports whether a field of the request limits how long its answer may be.
func (r *Request) limitsOutput() bool {
	if r.Relay != nil {
		return r.Relay.Answers > 0
	}
	return len(r.Chat.Messages) > 0
}

// fit returns the largest limit of the output with which the request costs no more than room at any candidate; 0 if it
// costs more without any output.
func (x *execution) fit(room price.Pico) int {
	return sort.Search(maxLimit, func(n int) bool { return x.worstWithin(n+1) > room })
}

// maxLimit is the largest limit of the output that a caller may set.
const maxLimit = 10_000_000

// worstWithin returns the most that the request can cost with a limit of its output.
func (x *execution) worstWithin(limit int) (worst price.Pico) {
	limited := *x.request
	limited.Chat.MaxTokens, limited.Bounds.Output = limit, 0
	for i := range x.candidates {
		c := &x.candidates[i]
		most := mostUsage(&limited, c, true).Usage
		most.Input += fieldBytes
		if relay := limited.Relay; relay != nil {
			most.Output += (int64(limit) - relay.OutputLimit) * relay.Answers
		}
		cost, known := dearest(x.fleet.Prices.Cost, *c, most)
		if !known {
			cost = 0
		}
		worst = max(worst, cost)
	}
	return worst
}
