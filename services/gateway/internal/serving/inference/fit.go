package inference

import (
	"cmp"
	"fmt"
	"sort"

	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/apierr"
)

// limitField names the field that limits the output where the request's Bounds name none.
const limitField = "max_tokens"

// fieldBytes is an upper bound of what the field that limits the output adds to a body, in bytes.
const fieldBytes = 64

// explain returns the refusal of a request that a ceiling does not cover. It adds the largest output limit that the
// ceiling would cover now, under the name that the field has in the caller's form.
func (x *execution) explain(short *budget.ShortError) *apierr.Error {
	r := x.request
	if !r.limitsOutput() {
		return short.Refusal
	}
	refusal := *short.Refusal
	refusal.At = cmp.Or(r.Bounds.LimitField, limitField)
	if limit := x.fit(short.Room); limit > 0 {
		refusal.Text += fmt.Sprintf("; it covers %s of at most %d now", refusal.At, limit)
	} else {
		refusal.Text += fmt.Sprintf("; no %s is small enough now: shorten the input, or ask for a higher limit", refusal.At)
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

// fit returns the largest output limit, in tokens, with which the request costs at most room at every candidate; 0 if
// no limit is small enough.
func (x *execution) fit(room price.Pico) int {
	return sort.Search(maxLimit, func(n int) bool { return x.worstWithin(n+1) > room })
}

// maxLimit is the largest output limit that a caller may set, in tokens.
const maxLimit = 10_000_000

// worstWithin returns the most that the request can cost with an output limit.
func (x *execution) worstWithin(limit int) (worst price.Pico) {
	for i := range x.candidates {
		worst = max(worst, costWithin(x.fleet.Prices.Cost, x.request, &x.candidates[i], limit))
	}
	return worst
}

// costWithin returns the most that a request can cost at a candidate with an output limit; 0 without a price.
func costWithin(priceOf priceOf, r *Request, c *candidate, limit int) price.Pico {
	limited := *r
	limited.Chat.MaxTokens, limited.Bounds.Output = limit, 0
	most := mostUsage(&limited, c, true).Usage
	most.Input += fieldBytes
	if relay := limited.Relay; relay != nil {
		most.Output += (int64(limit) - relay.OutputLimit) * relay.Answers
	}
	cost, known := dearest(priceOf, *c, most)
	if !known {
		return 0
	}
	return cost
}
