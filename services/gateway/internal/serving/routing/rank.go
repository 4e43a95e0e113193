package routing

import (
	"cmp"
	"math"
	"math/bits"
	"time"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// scored is an offer that is being ranked.
type scored struct {
	*policy.Offer
	substitute bool
	// native reports whether the provider takes the request as it was written.
	native bool
	// score is what the goal compares, lower is better; rank is the policy's rank.
	score int64
	rank  int32
	// index keeps the order of offers that compare equal otherwise.
	index int32
	// shares reports whether the offer shares its rank with others of equal merit.
	shares bool
	// warm reports whether the offer served this affinity last, so that the prompt is still in its cache; down whether
	// it is unavailable now. spread orders equal offers by rendezvous hashing.
	warm, down bool
	spread     uint64
}

// is reports whether s is an offer of the same target as o.
func (s *scored) is(o *policy.Offer) bool {
	return s.Offer == o || s.Hash == o.Hash && s.Target == o.Target
}

// candidate returns the offer as a plan lists it.
func (s *scored) candidate() Candidate {
	return Candidate{
		Target: s.Target, Upstream: s.Upstream, Identity: s.Identity, Host: s.Host, Unlisted: s.Unlisted,
		Lacks: s.Lacks, Limits: s.Capabilities.Limits, ImageTokens: s.Capabilities.ImageTokens, Native: s.native, Hints: s.Hints, Terms: s.Terms, Substitute: s.substitute,
	}
}

// rank sorts a section by the goal. Offers of equal merit are hosts of one model and offers that the policy ranks
// together. Among them the available ones come first, then the one with the prompt in its cache, then the order of
// rendezvous hashing.
func (b *planner) rank(section []scored) {
	if len(section) < 2 {
		return
	}
	model, alike := section[0].Offer, true
	for i := range section {
		alike = alike && model.IsSameModel(section[i].Offer)
	}
	for i := range section {
		o := &section[i]
		var tied bool
		o.rank, tied = o.Rank(b.goal)
		o.shares = alike || tied
		if b.goal == policy.GoalCost {
			o.score = b.cost(o.Offer)
		}
		if o.shares {
			b.prefer(o)
		}
	}
	sortScored(section, better)
	if b.goal == policy.GoalLatency {
		b.rankByLatency(section)
	}
}

// better compares by the goal, then by what distinguishes offers of equal merit.
func better(a, b *scored) int {
	switch {
	case a.score != b.score:
		return cmp.Compare(a.score, b.score)
	case a.rank != b.rank:
		return cmp.Compare(a.rank, b.rank)
	case a.shares && a.down != b.down:
		return first(!a.down)
	case a.shares && a.warm != b.warm:
		return first(a.warm)
	case a.shares && a.spread != b.spread:
		return cmp.Compare(b.spread, a.spread)
	}
	return cmp.Compare(a.index, b.index)
}

// affine reports whether the first of a ranked section owes its position to the request's affinity: nothing else
// distinguishes it from the second.
func affine(section []scored) bool {
	if len(section) < 2 {
		return false
	}
	a, b := &section[0], &section[1]
	alike := a.shares && b.shares && a.score == b.score && a.rank == b.rank && a.down == b.down
	return alike && (a.warm != b.warm || a.spread != b.spread)
}

func first(is bool) int {
	if is {
		return -1
	}
	return 1
}

// prefer sets what distinguishes an offer from others of equal merit.
func (b *planner) prefer(o *scored) {
	s := &b.state
	o.down = s.Live != nil && !s.Live.Available(o.Target, b.request.Organization)
	if b.request.Affinity == 0 {
		return
	}
	o.warm = s.Last == o.Target && s.Now.Sub(s.LastAt) < o.Settings.PromptCacheTTL
	o.spread = mix(b.request.Affinity ^ o.Hash)
}

// unpriced sorts behind every cost.
const unpriced = math.MaxInt64

// assumedOutput is the assumed length in tokens of an answer without a bound.
const assumedOutput = 500

// cost returns what the request will cost at an offer, in pico-USD: its estimated input and the longest output that it
// allows. An offer without a price is unpriced.
func (b *planner) cost(o *policy.Offer) int64 {
	if b.state.Prices == nil {
		return unpriced
	}
	needs := &b.request.Needs
	u := provider.Usage{Input: int64(max(needs.Context, 1))}
	switch b.operation {
	case provider.OperationCompletions, provider.OperationModerations, provider.OperationSpeech,
		provider.OperationTranscriptions, provider.OperationRerank:
		if needs.Usage != (provider.Usage{}) {
			u = needs.Usage
		}
	case provider.OperationImages:
		u.Images = int64(max(needs.Images, 1))
		u.ImageOutput = u.Images * int64(o.Capabilities.ImageTokens)
	case provider.OperationChat, provider.OperationVision:
		u.Output = int64(cmp.Or(needs.Output, assumedOutput))
	case provider.OperationEmbeddings:
	}
	cost := b.state.Prices.Cost(o.Provider, o.Model, b.state.Now, u)
	if !cost.Known {
		return unpriced
	}
	return int64(cost.Amount)
}

// rankByLatency sorts the offers whose latency is known among each other. The others keep their places, which follow
// the policy's ranks until there are samples.
func (b *planner) rankByLatency(section []scored) {
	if b.state.Live == nil {
		return
	}
	var placeSpace [32]int
	var knownSpace [32]scored
	places, known := placeSpace[:0], knownSpace[:0]
	for i := range section {
		if latency, ok := b.state.Live.Latency(section[i].Target); ok {
			section[i].score = coarse(latency)
			places, known = append(places, i), append(known, section[i])
		}
	}
	for i := range known {
		known[i].index = int32(i)
	}
	sortScored(known, func(x, y *scored) int {
		return cmp.Or(cmp.Compare(x.score, y.score), cmp.Compare(x.index, y.index))
	})
	for i, place := range places {
		section[place] = known[i]
	}
}

// coarse rounds a latency so that latencies within about a fifth of each other are equal, and noise does not move
// requests away from a warm cache.
func coarse(latency time.Duration) int64 {
	n := uint64(max(latency, 1))
	shift := max(bits.Len64(n)-3, 0)
	return int64(n >> shift << shift)
}

// sortScored is a stable insertion sort: sections are short.
func sortScored(section []scored, compare func(a, b *scored) int) {
	for i := 1; i < len(section); i++ {
		moved := section[i]
		j := i
		for ; j > 0 && compare(&moved, &section[j-1]) < 0; j-- {
			section[j] = section[j-1]
		}
		section[j] = moved
	}
}
