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

// kill ends members with kill -9 at a moment of the soak, and starts them again in their order after the time away.
type kill struct {
	at, away time.Duration
	members  []string
}

// planKills returns the kills of a soak: services are killed in turns of random order, Postgres is killed once together
// with a service, and Redis once, which comes back empty.
func planKills(random *rand.Rand, length time.Duration) (kills []kill) {
	pause := min(max(length/12, 2*time.Second), 15*time.Second)
	some := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	var turn []string
	next := func() string {
		if len(turn) == 0 {
			for _, i := range random.Perm(len(stack.Services)) {
				turn = append(turn, string(stack.Services[i]))
			}
		}
		member := turn[0]
		turn = turn[1:]
		return member
	}
	for at := pause; at < length-pause; at += pause/2 + some(pause) {
		kills = append(kills, kill{at, some(time.Second), []string{next()}})
	}
	kills = append(kills,
		kill{length / 3, time.Second + some(2*time.Second), []string{store.Postgres, next()}},
		kill{length * 2 / 3, time.Second + some(2*time.Second), []string{store.Redis}})
	slices.SortFunc(kills, func(a, b kill) int { return int(a.at - b.at) })
	return kills
}

// runKills carries out the kills at their times, and starts the members again.
func (s *soak) runKills(t *testing.T, begun time.Time, kills []kill) {
	t.Helper()
	for _, b := range kills {
		rest(t, time.Until(begun.Add(b.at)))
		t.Logf("after %s: kill -9 %v, away for %s", time.Since(begun).Round(time.Millisecond), b.members, b.away.Round(time.Millisecond))
		for _, member := range b.members {
			if err := s.harness.Kill(member); err != nil {
				t.Fatal(err)
			}
		}
		rest(t, b.away)
		for _, member := range b.members {
			if err := s.harness.Restart(t.Context(), member); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// countKills returns how often a member was killed.
func countKills(kills []kill, member string) (n int) {
	for _, b := range kills {
		if slices.Contains(b.members, member) {
			n++
		}
	}
	return n
}

// A plan kills every service, and each store once, and depends on its seed alone.
func TestKillPlan(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{30 * time.Second, 400 * time.Second} {
		kills := planKills(rand.New(rand.NewPCG(7, 0)), length)
		same(t, fmt.Sprint(kills), fmt.Sprint(planKills(rand.New(rand.NewPCG(7, 0)), length)))
		for _, service := range stack.Services {
			if countKills(kills, string(service)) == 0 {
				t.Errorf("%s: %s is never killed: %v", length, service, kills)
			}
		}
		if countKills(kills, store.Postgres) != 1 || countKills(kills, store.Redis) != 1 {
			t.Errorf("%s: want one kill of each store: %v", length, kills)
		}
		if last := kills[len(kills)-1]; last.at > length || !slices.IsSortedFunc(kills, func(a, b kill) int { return int(a.at - b.at) }) {
			t.Errorf("%s: the kills are not in order, or the last is too late: %v", length, kills)
		}
	}
}
