package meter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/platform/testkit"
)

var errAway = errors.New("connection refused")

// counting is a service that counts a call at a time; its cursor is how many calls there are before.
type counting struct {
	mu    sync.Mutex
	calls int
	away  bool
	// hidden calls follow later.
	hidden bool
	reads  int
}

func (s *counting) call(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls += n
}

func (s *counting) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *counting) Read(_ context.Context, cursor string) (meter.Page, error) {
	const page = 7
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.away {
		return meter.Page{}, errAway
	}
	from, _ := strconv.Atoi(cursor) // Empty for the beginning.
	to := min(from+page, s.calls)
	p := meter.Page{Next: strconv.Itoa(to), More: to-from == page, Incomplete: s.hidden}
	for i := from; i < to; i++ {
		p.Counts = append(p.Counts, meter.Count{Count: 1, Counter: meter.Counter{Organization: "org-1", Key: fmt.Sprint("key_", i%3), Metric: "llm_requests"}})
	}
	return p, nil
}

// counters is a store.
type counters struct {
	mu      sync.Mutex
	cursors map[string]string
	total   int64
	unheard bool // what was added is answered with an error now and then
}

func (c *counters) Cursor(_ context.Context, service string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cursors[service], nil
}

func (c *counters) Add(_ context.Context, service, from, to string, counts []meter.Count) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cursors[service] != from {
		return false, nil
	}
	c.cursors[service] = to
	for _, n := range counts {
		c.total += n.Count
	}
	if c.unheard && rand.N(3) == 0 {
		return false, errAway
	}
	return true, nil
}

func (c *counters) sum() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

func newCounters() *counters { return &counters{cursors: make(map[string]string)} }

// Several replicas follow services that come and go, with a store that doesn't always say what it has done: each count is
// added once, and in the end all are.
func TestFollowsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		gateway, notify, store := &counting{}, &counting{}, newCounters()
		store.unheard = true
		ctx, cancel := context.WithCancel(t.Context())
		var replicas sync.WaitGroup
		for range 3 {
			f := meter.NewFollower(map[string]meter.Feed{"gateway": gateway, "notify": notify}, store, testkit.Logger(t))
			replicas.Go(func() { _ = f.Run(ctx) })
		}
		for i := range 50 {
			gateway.call(20)
			notify.call(3)
			notify.set(i%5 == 1)
			time.Sleep(100 * time.Millisecond)
		}
		notify.set(false)
		time.Sleep(10 * time.Second)
		cancel()
		replicas.Wait()
		if got := store.sum(); got != 50*23 {
			t.Errorf("added %d counts, want %d", got, 50*23)
		}
	})
}

// A reader sees every call that was answered before, also while one of the services is away.
func TestCatchUp(t *testing.T) {
	gateway, notify, store := &counting{}, &counting{}, newCounters()
	f := meter.NewFollower(map[string]meter.Feed{"gateway": gateway, "notify": notify}, store, testkit.Logger(t))
	gateway.call(100)
	notify.call(5)
	if err := f.CatchUp(t.Context()); err != nil || store.sum() != 105 {
		t.Fatalf("%d counts (%v), want 105", store.sum(), err)
	}
	gateway.call(1)
	notify.set(true)
	if err := f.CatchUp(t.Context()); !errors.Is(err, errAway) || store.sum() != 106 {
		t.Errorf("%d counts (%v), want 106 and the service that is away", store.sum(), err)
	}
	if ages := f.Age(time.Now().Add(time.Minute)); ages["gateway"] > ages["notify"] || ages["notify"] < time.Minute {
		t.Errorf("ages %v, want notify's to be higher", ages)
	}
}

// While the latest calls are hidden, a reader is told, and the counters' age grows.
func TestHiddenCalls(t *testing.T) {
	gateway, store := &counting{hidden: true}, newCounters()
	f := meter.NewFollower(map[string]meter.Feed{"gateway": gateway}, store, testkit.Logger(t))
	before := f.Age(time.Now())["gateway"]
	gateway.call(3)
	for range 2 {
		if err := f.CatchUp(t.Context()); err == nil || store.sum() != 3 {
			t.Errorf("%d counts (%v), want 3 and an error", store.sum(), err)
		}
	}
	if age := f.Age(time.Now())["gateway"]; age < before {
		t.Errorf("the counters became younger: %v, then %v", before, age)
	}
}

func TestSum(t *testing.T) {
	of := func(key, tags string, n int64) meter.Count {
		return meter.Count{Count: n, Counter: meter.Counter{Organization: "org-1", Key: key, Metric: "events", Tags: tags}}
	}
	got := meter.Sum([]meter.Count{of("b", "", 1), of("a", `{"x":"y"}`, 2), of("b", "", 4), of("a", "", 8)})
	if want := fmt.Sprint([]meter.Count{of("a", "", 8), of("a", `{"x":"y"}`, 2), of("b", "", 5)}); fmt.Sprint(got) != want {
		t.Errorf("sum %v, want %v", got, want)
	}
}
