package inference

import (
	"sync"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

const (
	// inputMargin is the part of an estimated input that is booked beside it, and inputAround the tokens: vocabularies that
	// are not known differ by less.
	inputMargin, inputAround = 4, 32
	// usualAtFirst is what an answer without a bound is booked with until its model has answered, leastUsual the least that
	// it is booked with later.
	usualAtFirst, leastUsual = 4096, 256
	// usualDecay is the part of the distance to a shorter answer by which the usual answer becomes shorter.
	usualDecay = 64
	// maxUsual bounds the models whose answers are known.
	maxUsual = 4096
	// mostBooked bounds what a call is booked with, in tokens.
	mostBooked = 1 << 40
)

// usualOutputs are the long answers of models, in tokens: each longer answer raises its model's number at once, and
// shorter ones lower it slowly.
type usualOutputs struct {
	mu sync.Mutex
	by map[provider.Target]int64
}

func (u *usualOutputs) of(t provider.Target) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if usual, known := u.by[t]; known {
		return max(usual, leastUsual)
	}
	return usualAtFirst
}

func (u *usualOutputs) add(t provider.Target, tokens int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	usual, known := u.by[t]
	switch {
	case !known && len(u.by) >= maxUsual:
		return
	case u.by == nil:
		u.by = make(map[provider.Target]int64)
	}
	u.by[t] = max(tokens, usual-(usual-tokens)/usualDecay)
}

// isBounded reports whether the request itself says how long its answer may be.
func (r *Request) isBounded() bool {
	return r.Chat.MaxTokens > 0 || r.Bounds.Output > 0 || r.Relay != nil || r.Embedding.Len() > 0 || r.ImageRequest.Prompt != ""
}

// expects returns the tokens that a call to a candidate is booked with: an estimate of the input with a margin, and the
// longest answer that the request allows. A request that doesn't bound its answer is booked with a long answer of the
// model: no limit could hold the longest possible ones.
func (x *execution) expects(c *candidate) int64 {
	most := mostUsage(x.request, c, true)
	if x.input == 0 {
		x.input = estimateInput(x.request, c.names()...).Prompt()
	}
	input := min(most.Prompt(), x.input+x.input/inputMargin+inputAround)
	output := most.Completion()
	if !x.request.isBounded() {
		output = min(output, x.engine.usual.of(c.Target)*max(x.request.Bounds.Choices, 1))
	}
	return min(max(0, input+output), mostBooked)
}

// learnUsual learns from an answer that the request didn't bound.
func (x *execution) learnUsual() {
	if x.isLimited() && !x.hit && x.billed != nil && !x.request.isBounded() && !x.billed.served.Unlisted {
		x.engine.usual.add(x.billed.served.Target, x.billed.report.Usage.Completion()/max(x.request.Bounds.Choices, 1))
	}
}
