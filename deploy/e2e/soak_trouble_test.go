//go:build e2e

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// blow kills members at a moment of the soak and starts them again, in their order.
type blow struct {
	at, away time.Duration
	victims  []string
}

// plot is the trouble of a soak: services are killed in turns of random order, one
// blow takes Postgres and a service with it, and one Redis, which comes back empty.
func plot(chance *rand.Rand, length time.Duration) (blows []blow) {
	pause := min(max(length/12, 2*time.Second), 15*time.Second)
	some := func(d time.Duration) time.Duration { return time.Duration(chance.Int64N(int64(d))) }
	var turn []string
	next := func() string {
		if len(turn) == 0 {
			for _, i := range chance.Perm(len(stack.Services)) {
				turn = append(turn, string(stack.Services[i]))
			}
		}
		victim := turn[0]
		turn = turn[1:]
		return victim
	}
	for at := pause; at < length-pause; at += pause/2 + some(pause) {
		blows = append(blows, blow{at, some(time.Second), []string{next()}})
	}
	blows = append(blows,
		blow{length / 3, time.Second + some(2*time.Second), []string{store.Postgres, next()}},
		blow{length * 2 / 3, time.Second + some(2*time.Second), []string{store.Redis}})
	slices.SortFunc(blows, func(a, b blow) int { return int(a.at - b.at) })
	return blows
}

// strike deals the blows, and starts again what they end.
func (s *soak) strike(t *testing.T, begun time.Time, blows []blow) {
	t.Helper()
	for _, b := range blows {
		rest(t, time.Until(begun.Add(b.at)))
		t.Logf("after %s: kill -9 %v, away for %s", time.Since(begun).Round(time.Millisecond), b.victims, b.away.Round(time.Millisecond))
		for _, victim := range b.victims {
			if err := s.harness.Kill(victim); err != nil {
				t.Fatal(err)
			}
		}
		rest(t, b.away)
		for _, victim := range b.victims {
			if err := s.harness.Restart(t.Context(), victim); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// kills counts how often a member was killed.
func kills(blows []blow, member string) (n int) {
	for _, b := range blows {
		if slices.Contains(b.victims, member) {
			n++
		}
	}
	return n
}

// A plot has every service in it, both stores once, and depends on its seed alone.
func TestPlot(t *testing.T) {
	for _, length := range []time.Duration{30 * time.Second, 400 * time.Second} {
		blows := plot(rand.New(rand.NewPCG(7, 0)), length)
		same(t, fmt.Sprint(blows), fmt.Sprint(plot(rand.New(rand.NewPCG(7, 0)), length)))
		for _, service := range stack.Services {
			if kills(blows, string(service)) == 0 {
				t.Errorf("%s: %s is never killed: %v", length, service, blows)
			}
		}
		if kills(blows, store.Postgres) != 1 || kills(blows, store.Redis) != 1 {
			t.Errorf("%s: %v", length, blows)
		}
		if last := blows[len(blows)-1]; last.at > length || !slices.IsSortedFunc(blows, func(a, b blow) int { return int(a.at - b.at) }) {
			t.Errorf("%s: %v", length, blows)
		}
	}
}
