package breaker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/platform/kv"
	"switchyard.dev/services/platform/kv/kvtest"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/breaker"
)

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

func open(t *testing.T, store kv.Store, c *clock) *breaker.Breaker {
	t.Helper()
	return breaker.New(breaker.Options{
		Policy: policy, Store: store, Timeout: time.Minute, Log: testkit.Logger(t), Now: c.Now, Random: func() float64 { return 0.5 },
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

// each runs a test over a store in memory and in Redis.
func each(t *testing.T, test func(t *testing.T, store kv.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, new(kvtest.Memory)) })
	t.Run("redis", func(t *testing.T) { test(t, redisdb.NewKV(testkit.Redis(t), "breaker")) })
}

// Failures that different replicas see count together, one try is made in all,
// and all learn that it got through.
func TestReplicasShareATarget(t *testing.T) {
	each(t, func(t *testing.T, store kv.Store) {
		t.Helper()
		c := newClock()
		a, b := open(t, store, c), open(t, store, c)
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
	each(t, func(t *testing.T, store kv.Store) {
		t.Helper()
		c := newClock()
		b := open(t, store, c)
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
	c, store := newClock(), new(kvtest.Memory)
	a, b := open(t, store, c), open(t, store, c)
	c.report(a, shop, breaker.Failed, false)
	store.SetAway(true)
	c.report(a, shop, breaker.Failed, false)
	calls := store.Calls()
	move := c.report(a, shop, breaker.Failed, false)
	if move.State.Phase != breaker.Open {
		t.Fatalf("alone: %+v", move)
	}
	if store.Calls() != calls {
		t.Error("Redis is asked again at once")
	}
	if p := admit(b, 4, move.State); p.Allowed != 0 {
		t.Errorf("the store says open, the other replica alone: %+v", p)
	}
	store.SetAway(false)
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
	c, store := newClock(), new(kvtest.Memory)
	a := open(t, store, c)
	stored := breaker.State{Phase: breaker.Open, Opened: 2, Until: c.Now().Add(5 * time.Second)}
	if p := admit(a, 4, stored); p.Allowed != 0 || p.Wait != 5*time.Second {
		t.Errorf("before the time: %+v", p)
	}
	store.Clear()
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
	c, store := newClock(), new(kvtest.Memory)
	b := open(t, store, c)
	for range 100 {
		c.report(b, shop, breaker.Passed, false)
		if p := admit(b, 3, breaker.State{}); p.Allowed != 3 || p.Counted {
			t.Fatalf("%+v", p)
		}
	}
	if store.Calls() != 0 {
		t.Errorf("%d calls", store.Calls())
	}
}

// A text that holds what another release wrote counts as one that was never written.
func TestUnreadableText(t *testing.T) {
	c, store := newClock(), new(kvtest.Memory)
	for _, text := range []string{"{", `{"phase":"ajar"}`, `[]`} {
		store.Set("acme:shop.example.com:443", text)
		b := open(t, store, c)
		if move := c.report(b, shop, breaker.Failed, false); move.State.Row != 1 {
			t.Errorf("after %s: %+v", text, move)
		}
	}
}

func TestConcurrentReplicas(t *testing.T) {
	each(t, func(t *testing.T, store kv.Store) {
		t.Helper()
		c := newClock()
		var breakers []*breaker.Breaker
		for range 4 {
			breakers = append(breakers, open(t, store, c))
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

// States are those that replicas share; without the store they are this replica's copies.
func TestStates(t *testing.T) {
	each(t, func(t *testing.T, store kv.Store) {
		t.Helper()
		c := newClock()
		a, b := open(t, store, c), open(t, store, c)
		other := breaker.Target{Organization: "globex", Host: shop.Host, Port: shop.Port}
		for range 3 {
			c.report(a, shop, breaker.Failed, false)
		}
		for name, replica := range map[string]*breaker.Breaker{"that saw it": a, "another": b} {
			states := replica.States(t.Context(), []breaker.Target{other, shop})
			if len(states) != 2 || states[0] != (breaker.State{}) || states[1].Phase != breaker.Open || states[1].Opened != 1 {
				t.Errorf("the replica %s: %+v", name, states)
			}
		}
		if states := a.States(t.Context(), nil); len(states) != 0 {
			t.Errorf("of no targets: %+v", states)
		}
	})
	store, c := new(kvtest.Memory), newClock()
	a, b := open(t, store, c), open(t, store, c)
	store.SetAway(true)
	for range 3 {
		c.report(a, shop, breaker.Failed, false)
	}
	if states := a.States(t.Context(), []breaker.Target{shop}); states[0].Phase != breaker.Open {
		t.Errorf("while the store is away: %+v", states)
	}
	store.SetAway(false)
	c.pass(2 * time.Second)
	if states := a.States(t.Context(), []breaker.Target{shop}); states[0].Phase != breaker.Open {
		t.Errorf("decided alone, and the store is back: %+v", states)
	}
	if states := b.States(t.Context(), []breaker.Target{shop}); states[0] != (breaker.State{}) {
		t.Errorf("another replica, which saw nothing: %+v", states)
	}
}
