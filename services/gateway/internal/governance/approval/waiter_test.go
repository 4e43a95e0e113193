package approval

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// decisions are the approvals that are decided.
type decisions struct {
	mu      sync.Mutex
	decided map[string]bool
	err     error
}

func (d *decisions) look(_ context.Context, refs []string, _ time.Time) (found []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, ref := range refs {
		if d.decided[ref] {
			found = append(found, ref)
		}
	}
	return found, d.err
}

func (d *decisions) decide(ref string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.decided[ref], d.err = true, err
}

// waiting returns waiters whose store has decisions, and ends them with the test.
func waiting(t *testing.T) (*Waiters, *decisions) {
	t.Helper()
	d := &decisions{decided: make(map[string]bool)}
	w := NewWaiters(d.look)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		_ = w.Run(ctx, slog.New(slog.DiscardHandler))
		close(done)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		if len(w.of) != 0 || w.places.Held() != 0 {
			t.Errorf("%d still wait, and hold %d places", len(w.of), w.places.Held())
		}
	})
	return w, d
}

func TestWaitersAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := waiting(t)
		began := time.Now()
		woken := make(chan time.Duration, 3)
		for range 2 {
			go func() {
				if decided, err := w.Wait(t.Context(), "acme", "a", began.Add(time.Minute)); !decided || err != nil {
					t.Errorf("%t, %v", decided, err)
				}
				woken <- time.Since(began)
			}()
		}
		go func() {
			if decided, err := w.Wait(t.Context(), "acme", "b", began.Add(90*time.Second)); decided || err != nil {
				t.Errorf("%t, %v", decided, err)
			}
			woken <- time.Since(began)
		}()
		time.Sleep(10*time.Second + time.Millisecond)
		d.decide("a", nil)
		w.Wake() // The notice of another replica.
		for range 2 {
			if after := <-woken; after != 10*time.Second+time.Millisecond {
				t.Errorf("woken after %s", after)
			}
		}
		if after := <-woken; after != 90*time.Second {
			t.Errorf("the other one was woken after %s", after)
		}
	})
}

// Without a notice, and after a failure of the store, a decision is found within a second.
func TestWaitersLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := waiting(t)
		began := time.Now()
		woken := make(chan time.Duration)
		go func() {
			_, _ = w.Wait(t.Context(), "acme", "a", began.Add(time.Minute))
			woken <- time.Since(began)
		}()
		time.Sleep(1500 * time.Millisecond)
		d.decide("a", errors.New("away"))
		time.Sleep(5 * time.Second)
		d.decide("a", nil)
		if after := <-woken; after > 7500*time.Millisecond {
			t.Errorf("woken after %s", after)
		}
	})
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := waiting(t)
		d.decide("a", nil)
		if decided, err := w.Wait(t.Context(), "acme", "a", time.Now().Add(time.Hour)); !decided || err != nil {
			t.Errorf("decided before: %t, %v", decided, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Wait(ctx, "acme", "b", time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		drained := make(chan error)
		go func() {
			_, err := w.Wait(t.Context(), "acme", "b", time.Now().Add(time.Hour))
			drained <- err
		}()
		synctest.Wait()
		w.Drain()
		if err := <-drained; !errors.Is(err, errDraining) {
			t.Errorf("a replica that stops: %v", err)
		}
	})
}

// An organization may have its share of the calls that a replica holds, also if all wait for the same approval.
func TestOrganizationHasItsShareOfHeldCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := waiting(t)
		refused := make(chan error, maxWaiters)
		var calls sync.WaitGroup
		for range maxWaiters {
			calls.Go(func() {
				if _, err := w.Wait(t.Context(), "hostile", "a", time.Now().Add(time.Minute)); err != nil {
					refused <- err
				}
			})
		}
		synctest.Wait()
		if n := len(refused); n != maxWaiters*(100-waiterShare)/100 {
			t.Errorf("%d of %d calls are refused", n, maxWaiters)
		}
		if err := <-refused; !errors.Is(err, errTooManyWaiters) {
			t.Error(err)
		}
		if decided, err := w.Wait(t.Context(), "acme", "b", time.Now().Add(time.Second)); decided || err != nil {
			t.Errorf("another organization's call: %t, %v", decided, err)
		}
		calls.Wait()
	})
}
