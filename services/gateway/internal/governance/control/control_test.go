package control

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/platform/caller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// versions is a store in memory.
type versions struct {
	mu  sync.Mutex
	now map[Topic]int64
	err error
}

func (v *versions) Versions(context.Context) (map[Topic]int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.now), v.err
}

func (v *versions) set(topic Topic, version int64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now[topic], v.err = version, err
}

// follower records the loads that it was asked for.
type follower struct {
	of    *versions
	topic Topic

	mu    sync.Mutex
	since []int64
	err   error
}

func (f *follower) load(ctx context.Context, since int64) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return 0, f.err
	}
	f.since = append(f.since, since)
	all, _ := f.of.Versions(ctx)
	return all[f.topic], nil
}

// fail makes loading fail, or succeed if err is nil.
func (f *follower) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// loads returns the versions since which it was asked to load.
func (f *follower) loads() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.since)
}

// stale is the time without a poll after which a watcher is not ready.
const stale = 10 * time.Second

func TestFollowsWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &versions{now: map[Topic]int64{Runs: 3, Routing: 1}}
		runs, routing := &follower{of: store, topic: Runs}, &follower{of: store, topic: Routing}
		w := NewWatcher(store, stale, slog.New(slog.DiscardHandler))
		w.Watch(Runs, runs.load)
		w.Watch(Routing, routing.load)
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = w.Run(ctx); close(done) }()

		store.set(Runs, 4, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(runs.loads()) != 2 || runs.loads()[0] != 0 || runs.loads()[1] != 3 {
			t.Errorf("runs were loaded since %v, want 0 and 3", runs.loads())
		}
		if len(routing.loads()) != 1 {
			t.Errorf("what had not changed was loaded: %v", routing.loads())
		}

		// A wake-up takes effect without a poll.
		store.set(Routing, 2, nil)
		w.Wake()
		synctest.Wait()
		if len(routing.loads()) != 2 {
			t.Error("a wake-up was not heard")
		}
		stop()
		<-done
	})
}

func TestFailuresPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &versions{now: map[Topic]int64{Runs: 1, Routing: 1}}
		runs, routing := &follower{of: store, topic: Runs}, &follower{of: store, topic: Routing}
		w := NewWatcher(store, stale, slog.New(slog.DiscardHandler))
		w.Watch(Runs, runs.load)
		w.Watch(Routing, routing.load)
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = w.Run(ctx); close(done) }()

		// The store is unavailable, then available.
		store.set(Runs, 2, errors.New("away"))
		time.Sleep(2 * stale)
		synctest.Wait()
		if w.Ready(ctx) == nil {
			t.Error("ready though nothing was seen for long")
		}
		// One topic fails; the other is loaded, and the first is tried again.
		runs.fail(errors.New("bad row"))
		store.set(Routing, 2, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(routing.loads()) != 2 || len(runs.loads()) != 1 {
			t.Errorf("routing %v, runs %v", routing.loads(), runs.loads())
		}
		runs.fail(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(runs.loads()) != 2 || runs.loads()[1] != 1 || w.Ready(ctx) != nil {
			t.Errorf("runs %v, ready: %v", runs.loads(), w.Ready(ctx))
		}
		stop()
		<-done
	})
}

func TestStartNeedsEverything(t *testing.T) {
	store := &versions{now: map[Topic]int64{}}
	w := NewWatcher(store, stale, slog.New(slog.DiscardHandler))
	w.Watch(Runs, (&follower{of: store, topic: Runs, err: errors.New("away")}).load)
	if w.Start(t.Context()) == nil {
		t.Error("started without knowing the runs")
	}
}

// The poller and other organizations' calls wait for what LoadVersion loads, so the load must not count toward the
// writer's share of the connections.
func TestLoadVersionIsOfNoOrganization(t *testing.T) {
	w := NewWatcher(&versions{now: map[Topic]int64{Runs: 1}}, stale, slog.New(slog.DiscardHandler))
	loaded := false
	w.Watch(Runs, func(ctx context.Context, _ int64) (int64, error) {
		loaded = true
		if organization := caller.From(ctx).Organization; organization != "" {
			t.Errorf("loaded as a call of %q", organization)
		}
		return 1, nil
	})
	w.LoadVersion(caller.With(t.Context(), caller.Caller{Organization: "acme"}), Runs, 1)
	if !loaded {
		t.Error("the change was not loaded")
	}
}

// A writer's change is in force when LoadVersion returns, without a poll. Of many concurrent callers only few load.
func TestLoadVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &versions{now: map[Topic]int64{Runs: 1}}
		runs := &follower{of: store, topic: Runs}
		w := NewWatcher(store, stale, slog.New(slog.DiscardHandler))
		w.Watch(Runs, runs.load)
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		store.set(Runs, 9, nil)
		var writers sync.WaitGroup
		for version := range int64(9) {
			writers.Go(func() { w.LoadVersion(t.Context(), Runs, version+1) })
		}
		writers.Wait()
		if level := w.topics[Runs].level.Load(); level != 9 {
			t.Errorf("level %d, want 9", level)
		}
		if n := len(runs.loads()); n != 2 {
			t.Errorf("%d loads, want the first and one for all changes", n)
		}
		w.LoadVersion(t.Context(), Models, 1) // The topic is not watched here.

		// After a load that fails, the watcher tries again.
		runs.fail(errors.New("away"))
		store.set(Runs, 10, nil)
		w.LoadVersion(t.Context(), Runs, 10)
		runs.fail(nil)
		if err := w.poll(t.Context()); err != nil || w.topics[Runs].level.Load() != 10 {
			t.Errorf("level %d, %v, want 10", w.topics[Runs].level.Load(), err)
		}
	})
}
