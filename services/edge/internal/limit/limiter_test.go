package limit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

// fakeFleet settles in memory, after a delay, or fails.
type fakeFleet struct {
	mu    sync.Mutex
	full  map[string]time.Time
	calls int
	delay time.Duration
	err   error
}

func (f *fakeFleet) Settle(ctx context.Context, spent []Spending) ([]time.Duration, error) {
	f.mu.Lock()
	delay := f.delay
	f.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.err != nil {
		return nil, f.err
	}
	now := time.Now()
	ahead := make([]time.Duration, len(spent))
	for i, s := range spent {
		if f.full == nil {
			f.full = make(map[string]time.Time)
		}
		if f.full[s.Name].Before(now) {
			f.full[s.Name] = now
		}
		f.full[s.Name] = f.full[s.Name].Add(s.Cost)
		ahead[i] = f.full[s.Name].Sub(now)
	}
	return ahead, nil
}

func (f *fakeFleet) set(delay time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay, f.err = delay, err
}

func (f *fakeFleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// start runs a replica's limiter until the test ends.
func start(t *testing.T, fleet Fleet) *Limiter {
	t.Helper()
	x := New(fleet)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx, testkit.Logger(t)) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return x
}

// hammer makes requests one after the other until a moment, and tells how many
// were admitted.
func hammer(t *testing.T, x *Limiter, b Bucket, pause time.Duration, until time.Time) (admitted int64) {
	t.Helper()
	for time.Now().Before(until) {
		_, err := x.Take(t.Context(), b, Bucket{})
		switch e := apierr.From(err); {
		case err == nil:
			admitted++
		case e.Kind != apierr.KindRateLimited || e.RetryAfter <= 0:
			t.Errorf("refused with %v, retry after %v", err, e.RetryAfter)
		}
		time.Sleep(pause)
	}
	return admitted
}

// Three replicas that are hammered at once admit together what one would, and
// at most a lease each beyond it.
func TestReplicasShareALimit(t *testing.T) {
	for name, l := range map[string]Limit{
		"small": {Requests: 20, Window: time.Minute, Burst: 20},
		"large": {Requests: 6000, Window: time.Minute, Burst: 1000},
		"burst": {Requests: 600, Window: time.Minute, Burst: 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet := &fakeFleet{delay: 300 * time.Microsecond}
				const replicas, windows = 3, 5
				until := time.Now().Add(windows * l.Window)
				var admitted atomic.Int64
				var all sync.WaitGroup
				for range replicas {
					x := start(t, fleet)
					for range 2 {
						all.Go(func() { admitted.Add(hammer(t, x, Bucket{"key 1", l}, 5*time.Millisecond, until)) })
					}
				}
				all.Wait()
				most := int64(l.Burst) + windows*int64(l.Requests) + replicas*l.lease()
				least := (windows*int64(l.Requests) + int64(l.Burst)) * 95 / 100
				if got := admitted.Load(); got > most || got < least {
					t.Errorf("%d admitted, want %d to %d", got, least, most)
				}
			})
		})
	}
}

// A fleet that never answers holds up one lease, then each replica goes on alone.
func TestLeaseWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := &fakeFleet{delay: time.Hour}
		x := start(t, fleet)
		b := Bucket{"key 1", Limit{Requests: 1000, Window: time.Minute, Burst: 1000}}
		begun := time.Now()
		for i := range 1000 {
			if _, err := x.Take(t.Context(), b, Bucket{}); err != nil {
				t.Fatal(i, err)
			}
			if i < int(b.Limit.lease()) && time.Since(begun) > 0 {
				t.Fatalf("request %d, within the lease, waited %v", i, time.Since(begun))
			}
		}
		if waited := time.Since(begun); waited != waitTime {
			t.Errorf("1000 requests waited %v in all, want %v", waited, waitTime)
		}
		if _, err := x.Take(t.Context(), b, Bucket{}); apierr.From(err).Kind != apierr.KindRateLimited {
			t.Errorf("the 1001st = %v", err)
		}
	})
}

// While the fleet is away each replica bounds by itself, and what was spent then
// is not charged again.
func TestFleetAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := &fakeFleet{err: errors.New("connection refused")}
		x := start(t, fleet)
		b := Bucket{"key 1", Limit{Requests: 60, Window: time.Minute, Burst: 60}}
		if got := hammer(t, x, b, 50*time.Millisecond, time.Now().Add(10*time.Minute)); got < 600 || got > 660 {
			t.Errorf("%d admitted in ten minutes, want 600 to 660", got)
		}
		if n := fleet.count(); n > 601 {
			t.Errorf("%d tries in ten minutes", n)
		}
		fleet.set(0, nil)
		time.Sleep(2 * time.Minute)
		if got := hammer(t, x, b, 50*time.Millisecond, time.Now().Add(time.Minute)); got < 119 || got > 122 {
			t.Errorf("%d admitted in the minute after, want about 120", got)
		}
	})
}

// A request that one of the two refuses costs the other nothing.
func TestTwoBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := New(nil)
		key := Bucket{"key 1", Limit{Requests: 2, Window: time.Minute, Burst: 2}}
		organization := Bucket{"organization 1", Limit{Requests: 3, Window: time.Minute, Burst: 3}}
		var refusals []error
		var v Verdict
		for range 4 {
			var err error
			v, err = x.Take(t.Context(), key, organization)
			refusals = append(refusals, err)
		}
		for i, refused := range []bool{false, false, true, true} {
			if (refusals[i] != nil) != refused {
				t.Fatalf("request %d: %v, want refused %t", i+1, refusals[i], refused)
			}
		}
		want := v
		want.Key.Remaining, want.Key.Full = 0, time.Minute
		want.Organization.Remaining, want.Organization.Full = 1, 40*time.Second
		if diff := cmp.Diff(want, v); diff != "" {
			t.Errorf("verdict (-want +got):\n%s", diff)
		}
		other := Bucket{"key 2", key.Limit}
		if _, err := x.Take(t.Context(), other, organization); err != nil {
			t.Error(err)
		}
		v, err := x.Take(t.Context(), other, organization)
		if e := apierr.From(err); err == nil || v.Key.Remaining != 1 || e.RetryAfter != 20*time.Second {
			t.Errorf("the organization's refusal: %v, %+v", err, v)
		}
		if v, err := x.Take(t.Context(), Bucket{Name: "key 3"}, Bucket{}); err != nil || v != (Verdict{}) {
			t.Errorf("nothing bounds: %+v, %v", v, err)
		}
	})
}

// Accounts of buckets that are full again take up nothing.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t, &fakeFleet{})
		b := Bucket{"key 1", Limit{Requests: 1, Window: 5 * time.Minute, Burst: 1}}
		if _, err := x.Take(t.Context(), b, Bucket{}); err != nil {
			t.Fatal(err)
		}
		known := func() int {
			x.mu.RLock()
			defer x.mu.RUnlock()
			return len(x.accounts)
		}
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if known() != 1 {
			t.Error("a bucket that isn't full was forgotten")
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if known() != 0 {
			t.Error("a full bucket is kept")
		}
	})
}
