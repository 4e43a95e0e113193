package pool_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/pool"
)

var seeded = rand.New(rand.NewPCG(1, 2)).Float64

// firsts returns how often each credential is first in a thousand requests.
func firsts(choice policy.Choice, states []pool.State) []float64 {
	counts := make([]float64, len(states))
	for i := range uint64(1000) {
		counts[pool.Order(choice, states, i, seeded)[0]]++
	}
	return counts
}

// Requests are spread by weight, whether by chance or by what they begin with.
func TestWeights(t *testing.T) {
	states := []pool.State{{Name: "a", Weight: 1}, {Name: "b", Weight: 2}, {Name: "c", Weight: 7}}
	for _, choice := range []policy.Choice{policy.ChoiceWeighted, policy.ChoiceSticky, policy.ChoiceLeastLoaded} {
		for i, n := range firsts(choice, states) {
			if want := float64(states[i].Weight) * 100; math.Abs(n-want) > 60 {
				t.Errorf("%s: %s is first %v times, want about %v", choice, states[i].Name, n, want)
			}
		}
	}
}

// Every credential is tried once, whatever the choice.
func TestEachIsTried(t *testing.T) {
	var states []pool.State
	for i := range 64 {
		states = append(states, pool.State{Name: strconv.Itoa(i), Weight: 1 + i, Load: float64(i % 5), Latency: time.Duration(i%7) * time.Second})
	}
	for _, choice := range []policy.Choice{policy.ChoiceWeighted, policy.ChoiceSticky, policy.ChoiceLeastLoaded, policy.ChoiceLowestLatency} {
		order := pool.Order(choice, states, 7, seeded)
		slices.Sort(order)
		for i := range states {
			if i >= len(order) || order[i] != i {
				t.Fatalf("%s: %v, want each of 64", choice, order)
			}
		}
	}
}

// Requests that begin alike stay with one credential, also when others come and go, until it is far busier than they are.
func TestSticky(t *testing.T) {
	states := []pool.State{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}, {Name: "c", Weight: 1}}
	first := pool.Order(policy.ChoiceSticky, states, 42, seeded)
	for range 10 {
		if again := pool.Order(policy.ChoiceSticky, states, 42, seeded); !slices.Equal(first, again) {
			t.Fatalf("%v, then %v", first, again)
		}
	}
	for affinity := range uint64(200) {
		with := pool.Order(policy.ChoiceSticky, states, affinity, seeded)
		without := pool.Order(policy.ChoiceSticky, states[:2], affinity, seeded)
		if with[0] != 2 && with[0] != without[0] {
			t.Errorf("affinity %d moves from %d to %d though its credential stays", affinity, with[0], without[0])
		}
	}
	busy := slices.Clone(states)
	for i := range busy {
		busy[i].Load = 10
	}
	if got := pool.Order(policy.ChoiceSticky, busy, 42, seeded); got[0] != first[0] {
		t.Errorf("leaves credential %d though all are equally busy: %v", first[0], got)
	}
	busy[first[0]].Load = 16
	if got := pool.Order(policy.ChoiceSticky, busy, 42, seeded); got[0] != first[1] || got[2] != first[0] {
		t.Errorf("order %v, want the crowded credential %d last", got, first[0])
	}
}

// The credential with the smallest load for its weight comes first.
func TestLeastLoaded(t *testing.T) {
	states := []pool.State{{Name: "a", Weight: 1, Load: 3}, {Name: "b", Weight: 4, Load: 8}, {Name: "c", Weight: 1, Load: 4}}
	if got := pool.Order(policy.ChoiceLeastLoaded, states, 0, seeded); !slices.Equal(got, []int{1, 0, 2}) {
		t.Errorf("order %v, want 1 0 2", got)
	}
}

// The faster of two random credentials comes first, so that a slow one is seldom chosen, and one without measurements is
// measured.
func TestLowestLatency(t *testing.T) {
	states := []pool.State{
		{Name: "slow", Weight: 1, Latency: 9 * time.Second}, {Name: "fast", Weight: 1, Latency: time.Second}, {Name: "new", Weight: 1},
	}
	counts := firsts(policy.ChoiceLowestLatency, states)
	if counts[0] > 0 || counts[1] < 200 || counts[2] < 500 {
		t.Errorf("first %v times, want the slow one never and the new one in two of three", counts)
	}
}
