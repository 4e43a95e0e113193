package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/redis"
)

// memory is a KV in memory that can go away and lose everything.
type memory struct {
	mu    sync.Mutex
	kv    map[breaker.Target]string
	away  bool
	calls int
}

func newMemory() *memory { return &memory{kv: make(map[breaker.Target]string)} }

var errAway = errors.New("away")

func (m *memory) Get(_ context.Context, targets []breaker.Target) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.away {
		return nil, errAway
	}
	texts := make([]string, len(targets))
	for i, t := range targets {
		texts[i] = m.kv[t]
	}
	return texts, nil
}

func (m *memory) Swap(_ context.Context, swaps []breaker.Swap) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, errAway
	}
	done := make([]bool, len(swaps))
	for i, s := range swaps {
		if done[i] = m.kv[s.Target] == s.Old; done[i] {
			m.kv[s.Target] = s.New
		}
	}
	return done, nil
}

func (m *memory) set(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

var policy = breaker.Policy{Failures: 3, Share: 0.5, Sample: 20, Window: time.Minute, Pause: 10 * time.Second, MaxPause: time.Minute}

func open(t *testing.T, kv breaker.KV, c *clock) *breaker.Breaker {
	t.Helper()
	return breaker.New(breaker.Options{
		Policy: policy, KV: kv, Log: testkit.Logger(t), Now: c.Now, Random: func() float64 { return 0.5 },
	})
}

var shop = breaker.Target{Organization: "acme", Host: "shop.example.com", Port: 443}

func (c *clock) report(b *breaker.Breaker, target breaker.Target, event breaker.Event, admitted bool) breaker.Move {
	return b.Observe(context.Background(), []breaker.Observation{{
		Target: target, Report: breaker.Report{Event: event, Began: c.Now(), Admitted: admitted},
	}})[0]
}

func admit(b *breaker.Breaker, want int, stored breaker.State) breaker.Permit {
	return b.Admit(context.Background(), []breaker.Ask{{Target: shop, Want: want, Stored: stored}}, 20*time.Second)[0]
}

// each runs a test over a KV in memory and in Redis.
func each(t *testing.T, test func(t *testing.T, kv breaker.KV)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, newMemory()) })
	t.Run("redis", func(t *testing.T) { test(t, redis.NewBreakers(testkit.Redis(t))) })
}

func TestCells(t *testing.T) {
	each(t, func(t *testing.T, kv breaker.KV) {
		t.Helper()
		other := breaker.Target{Organization: "acme", Host: "a:b", Port: 80}
		swap := func(old, text string) bool {
			done, err := kv.Swap(t.Context(), []breaker.Swap{
				{Target: shop, Old: old, New: text, Life: time.Minute},
				{Target: other, Old: "", New: "", Life: time.Minute},
			})
			if err != nil || !done[1] {
				t.Fatalf("%v, %v", done, err)
			}
			return done[0]
		}
		for _, step := range []struct {
			old, text string
			done      bool
			holds     string
		}{
			{"", "one", true, "one"},
			{"", "two", false, "one"},
			{"two", "three", false, "one"},
			{"one", "two", true, "two"},
			{"two", "", true, ""},
			{"", "three", true, "three"},
		} {
			if done := swap(step.old, step.text); done != step.done {
				t.Errorf("%q for %q: %v", step.text, step.old, done)
			}
			texts, err := kv.Get(t.Context(), []breaker.Target{other, shop})
			if err != nil || texts[0] != "" || texts[1] != step.holds {
				t.Errorf("%q after %q for %q, %v", texts, step.text, step.old, err)
			}
		}
	})
}

// Failures that different replicas see count together, one try is made in all,
// and all learn that it got through.
func TestReplicasShareATarget(t *testing.T) {
	each(t, func(t *testing.T, kv breaker.KV) {
		t.Helper()
		c := newClock()
		a, b := open(t, kv, c), open(t, kv, c)
		c.report(a, shop, breaker.Failed, false)
		c.report(b, shop, breaker.Failed, false)
		move := c.report(a, shop, breaker.Failed, false)
		if !move.Changed || move.State.Phase != breaker.Open {
			t.Fatalf("move = %+v", move)
		}
		stored := move.State
		if p := admit(b, 8, stored); p.Allowed != 0 || p.Wait != 10*time.Second {
			t.Errorf("the other replica: %+v", p)
		}
		c.pass(10 * time.Second)
		if p := admit(b, 8, stored); p.Allowed != 1 || !p.Counted {
			t.Fatalf("after the pause: %+v", p)
		}
		if p := admit(a, 8, stored); p.Allowed != 0 || p.Wait <= 0 {
			t.Errorf("a second try: %+v", p)
		}
		if _, blocked := a.Blocked(shop); !blocked {
			t.Error("what nobody let in passes")
		}
		got := []int{1}
		for move = c.report(b, shop, breaker.Passed, true); move.State.Phase == breaker.HalfOpen; {
			p := admit(a, 20, stored)
			got = append(got, p.Allowed)
			for range p.Allowed {
				move = c.report(b, shop, breaker.Passed, true)
			}
		}
		if fmt.Sprint(got) != "[1 2 4 8]" || move.State.Phase != breaker.Closed {
			t.Errorf("ramp %v, then %+v", got, move)
		}
		if p := admit(a, 20, stored); p.Allowed != 20 || p.Counted {
			t.Errorf("after the ramp: %+v", p)
		}
		if _, blocked := a.Blocked(shop); blocked {
			t.Error("blocked after the ramp")
		}
	})
}

func TestOrganizationsDontShareATarget(t *testing.T) {
	each(t, func(t *testing.T, kv breaker.KV) {
		t.Helper()
		c := newClock()
		b := open(t, kv, c)
		for i := range 10 {
			target := shop
			target.Organization = fmt.Sprint("org-", i)
			if i == 3 {
				for range 3 {
					c.report(b, target, breaker.Failed, false)
				}
			}
			if _, blocked := b.Blocked(target); blocked != (i == 3) {
				t.Errorf("%s: blocked = %v", target.Organization, blocked)
			}
		}
	})
}

// Without Redis each replica decides by itself; once it is back, what was decided
// meanwhile is what all go by.
func TestRedisGoesAwayAndComesBack(t *testing.T) {
	c, kv := newClock(), newMemory()
	a, b := open(t, kv, c), open(t, kv, c)
	c.report(a, shop, breaker.Failed, false)
	kv.set(true)
	c.report(a, shop, breaker.Failed, false)
	calls := kv.calls
	move := c.report(a, shop, breaker.Failed, false)
	if move.State.Phase != breaker.Open {
		t.Fatalf("alone: %+v", move)
	}
	if kv.calls != calls {
		t.Error("Redis is asked again at once")
	}
	if p := admit(b, 4, move.State); p.Allowed != 0 {
		t.Errorf("the store says open, the other replica alone: %+v", p)
	}
	kv.set(false)
	c.pass(3 * time.Second)
	c.report(a, shop, breaker.Failed, false) // brings what a decided alone
	if p := admit(b, 4, breaker.State{Phase: breaker.Open, Until: move.State.Until}); p.Allowed != 0 || p.Wait != 7*time.Second {
		t.Errorf("together again: %+v", p)
	}
	c.pass(7 * time.Second)
	if first, second := admit(a, 4, move.State), admit(b, 4, move.State); first.Allowed+second.Allowed != 1 {
		t.Errorf("tries %+v and %+v, want one in all", first, second)
	}
}

// Redis is empty again: the flow row says when the target is to be tried, and how
// often in a row it has opened.
func TestRedisIsEmptied(t *testing.T) {
	c, kv := newClock(), newMemory()
	a := open(t, kv, c)
	stored := breaker.State{Phase: breaker.Open, Opened: 2, Until: c.Now().Add(5 * time.Second)}
	if p := admit(a, 4, stored); p.Allowed != 0 || p.Wait != 5*time.Second {
		t.Errorf("before the time: %+v", p)
	}
	clear(kv.kv)
	c.pass(5 * time.Second)
	if p := admit(a, 4, stored); p.Allowed != 1 {
		t.Errorf("at the time: %+v", p)
	}
	if move := c.report(a, shop, breaker.Failed, true); move.State.Opened != 3 || move.State.Until.Sub(c.Now()) != 40*time.Second {
		t.Errorf("after the try: %+v", move)
	}
}

// Targets that are well cost no call, and are not remembered.
func TestQuietTargetsCostNothing(t *testing.T) {
	c, kv := newClock(), newMemory()
	b := open(t, kv, c)
	for range 100 {
		c.report(b, shop, breaker.Passed, false)
		if p := admit(b, 3, breaker.State{}); p.Allowed != 3 || p.Counted {
			t.Fatalf("%+v", p)
		}
	}
	if kv.calls != 0 {
		t.Errorf("%d calls", kv.calls)
	}
}

// A cell that holds what another release wrote counts as one that was never written.
func TestUnreadableCell(t *testing.T) {
	c, kv := newClock(), newMemory()
	for _, text := range []string{"{", `{"phase":"ajar"}`, `[]`} {
		kv.kv[shop] = text
		b := open(t, kv, c)
		if move := c.report(b, shop, breaker.Failed, false); move.State.Row != 1 {
			t.Errorf("after %s: %+v", text, move)
		}
	}
}

func TestConcurrentReplicas(t *testing.T) {
	each(t, func(t *testing.T, kv breaker.KV) {
		t.Helper()
		c := newClock()
		var breakers []*breaker.Breaker
		for range 4 {
			breakers = append(breakers, open(t, kv, c))
		}
		stored := breaker.State{Phase: breaker.Open, Opened: 1, Until: c.Now()}
		var mu sync.Mutex
		tries := 0
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				p := admit(breakers[i%4], 5, stored)
				mu.Lock()
				defer mu.Unlock()
				tries += p.Allowed
			})
		}
		all.Wait()
		if tries != 1 {
			t.Errorf("%d tries at once, want one", tries)
		}
	})
}
