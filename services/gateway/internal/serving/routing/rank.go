package routing

import (
	"cmp"
	"math"
	"math/bits"
	"time"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// scored is an offer on its way into a plan.
type scored struct {
	*policy.Offer
	substitute bool
	// score is what the goal compares, the less the better; place the policy's rank.
	score int64
	place int32
	// index keeps the order of what nothing else tells apart.
	index int32
	// shares reports that it shares its place with others of equal merit.
	shares bool
	// warm: it served this affinity last, and still has the prompt in its cache.
	warm, down bool
	spread     uint64
}

// is reports whether it is an offer of the same target.
func (s *scored) is(o *policy.Offer) bool {
	return s.Offer == o || s.Hash == o.Hash && s.Target == o.Target
}

// candidate returns the offer as a plan lists it.
func (s *scored) candidate() Candidate {
	return Candidate{
		Target: s.Target, Upstream: s.Upstream, Unlisted: s.Unlisted,
		Lacks: s.Lacks, Limits: s.Capabilities.Limits, Substitute: s.substitute,
	}
}

// rank sorts a section by the goal. Among offers of equal merit, which are hosts
// of one model and those that the policy ranks together, the one that is
// available and has the prompt in its cache comes first, then by rendezvous.
func (b *planner) rank(section []scored) {
	if len(section) < 2 {
		return
	}
	model, alike := section[0].Model, true
	for i := range section {
		alike = alike && section[i].Model == model
	}
	for i := range section {
		o := &section[i]
		var tied bool
		o.place, tied = o.Place(b.goal)
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

// better compares by the goal, then what is of equal merit.
func better(a, b *scored) int {
	switch {
	case a.score != b.score:
		return cmp.Compare(a.score, b.score)
	case a.place != b.place:
		return cmp.Compare(a.place, b.place)
	case a.shares && a.down != b.down:
		return first(!a.down)
	case a.shares && a.warm != b.warm:
		return first(a.warm)
	case a.shares && a.spread != b.spread:
		return cmp.Compare(b.spread, a.spread)
	}
	return cmp.Compare(a.index, b.index)
}

// affine reports whether the first of a ranked section owes its place to an
// affinity: nothing else tells it from the next.
func affine(section []scored) bool {
	if len(section) < 2 {
		return false
	}
	a, b := &section[0], &section[1]
	alike := a.shares && b.shares && a.score == b.score && a.place == b.place && a.down == b.down
	return alike && (a.warm != b.warm || a.spread != b.spread)
}

func first(is bool) int {
	if is {
		return -1
	}
	return 1
}

// prefer finds what sets an offer apart from others of equal merit.
func (b *planner) prefer(o *scored) {
	s := &b.state
	o.down = s.Live != nil && !s.Live.Available(o.Target, b.request.Organization)
	if b.request.Affinity == 0 {
		return
	}
	o.warm = s.Last == o.Target && s.Now.Sub(s.LastAt) < o.Settings.PromptCacheTTL
	o.spread = mix(b.request.Affinity ^ o.Hash)
}

// unpriced is behind every cost.
const unpriced = math.MaxInt64

// assumedOutput is the length of an answer, in tokens, that nothing bounds.
const assumedOutput = 500

// cost is what the request will cost at an offer, in pico-USD: its input as
// estimated, and all the output it may have. What has no price comes last.
func (b *planner) cost(o *policy.Offer) int64 {
	if b.state.Prices == nil {
		return unpriced
	}
	needs := &b.request.Needs
	u := provider.Usage{Input: int64(max(needs.Context, 1))}
	switch b.operation {
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

// rankByLatency sorts those whose latency is known among each other. The places
// of the others are the policy's: its ranks are what is believed of an offer
// until there are samples.
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

// coarse takes latencies that are within about a fifth of each other for equal,
// so that noise does not move requests away from a warm cache.
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
