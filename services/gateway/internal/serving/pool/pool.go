// Package pool decides in which order the credentials of a provider's pool are tried for a request.
package pool

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"switchyard.dev/services/gateway/internal/policy"
)

// State is what an order depends on, for one credential.
type State struct {
	// Name of the credential in the pool.
	Name string
	// Weight is its share relative to the others, at least 1.
	Weight int
	// Load is how much of it is in use, such as its calls in flight.
	Load float64
	// Latency is its recent wait for an answer; 0 when unknown.
	Latency time.Duration
}

// crowded is how much of the mean load a credential may have before sticky requests leave it.
const crowded = 1.25

// Order returns the indices of the credentials in the order in which a request tries them. affinity is equal for requests
// that begin alike. random returns numbers in [0, 1).
func Order(choice policy.Choice, states []State, affinity uint64, random func() float64) []int {
	draw := func(*State) float64 { return random() }
	if choice == policy.ChoiceSticky {
		draw = func(s *State) float64 { return fraction(affinity, s.Name) }
	}
	order := weighted(states, draw)
	switch choice {
	case policy.ChoiceSticky:
		passCrowded(order, states)
	case policy.ChoiceLeastLoaded:
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Compare(states[a].Load/float64(states[a].Weight), states[b].Load/float64(states[b].Weight))
		})
	case policy.ChoiceLowestLatency:
		if len(order) > 1 && states[order[1]].Latency < states[order[0]].Latency {
			order[0], order[1] = order[1], order[0]
		}
	case policy.ChoiceWeighted:
	}
	return order
}

// weighted returns the indices in a random order in which each credential is first as often as its weight says: by
// exponentially distributed times with the weights as rates (Efraimidis and Spirakis, "Weighted random sampling with a
// reservoir", 2006). With a hash in place of chance this is weighted rendezvous hashing.
func weighted(states []State, draw func(*State) float64) []int {
	order, times := make([]int, len(states)), make([]float64, len(states))
	for i := range states {
		order[i], times[i] = i, -math.Log(1-draw(&states[i]))/float64(states[i].Weight)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(times[a], times[b]) })
	return order
}

// passCrowded moves credentials that are far busier than the others behind them, so that many requests that begin alike
// don't exhaust one credential.
func passCrowded(order []int, states []State) {
	load, weight := 1.0, 0.0 // The request itself counts.
	for _, s := range states {
		load += s.Load
		weight += float64(s.Weight)
	}
	isCrowded := func(i int) bool {
		return states[i].Load+1 > max(crowded*load*float64(states[i].Weight)/weight, 1)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := isCrowded(a), isCrowded(b); {
		case x == y:
			return 0
		case y:
			return -1
		}
		return 1
	})
}

// fraction returns a number in [0, 1) that is the same for an affinity and a name everywhere.
func fraction(affinity uint64, name string) float64 {
	var d xxhash.Digest
	d.ResetWithSeed(affinity)
	_, _ = d.WriteString(name)
	return float64(d.Sum64()>>11) / (1 << 53)
}
