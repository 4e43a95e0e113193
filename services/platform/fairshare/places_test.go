package fairshare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Callers of an organization that holds its whole share wait, while callers of other organizations get places at once.
func TestPlacesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(4, 50)
		ctx, cancel := context.WithCancelCause(t.Context())
		errStopped := errors.New("stopped")
		var hostile sync.WaitGroup
		for range 100 {
			hostile.Go(func() {
				release, err := p.Acquire(ctx, "a")
				if err == nil {
					<-ctx.Done()
					release()
				} else if !errors.Is(err, errStopped) {
					t.Errorf("error %v", err)
				}
			})
		}
		synctest.Wait()
		if p.held != p.Share() {
			t.Fatalf("one organization holds %d places, want its share of %d", p.held, p.Share())
		}
		for _, organization := range []string{"b", "c"} {
			if _, err := p.Acquire(t.Context(), organization); err != nil {
				t.Fatal(err)
			}
		}
		cancel(errStopped)
		hostile.Wait()
		for _, organization := range []string{"b", "c"} {
			p.Release(organization)
		}
		if p.held != 0 || len(p.holders) != 0 || p.line.Len() != 0 {
			t.Errorf("%d held, %d organizations and %d turns are left", p.held, len(p.holders), p.line.Len())
		}
	})
}

// Waiting organizations take turns: one with many waiting callers gets no earlier turn than one with a single caller.
func TestPlacesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(2, 50)
		first, _ := p.Acquire(t.Context(), "a")
		second, _ := p.Acquire(t.Context(), "b")
		var served []string
		var mu sync.Mutex
		var waiting sync.WaitGroup
		wait := func(organization string, n int) {
			for range n {
				waiting.Go(func() {
					release, err := p.Acquire(t.Context(), organization)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					served = append(served, organization)
					mu.Unlock()
					time.Sleep(time.Second)
					release()
				})
			}
			synctest.Wait()
		}
		wait("a", 5)
		wait("b", 5)
		wait("c", 1)
		first()
		second()
		waiting.Wait()
		if !slices.Contains(served[:4], "c") { // Two callers are served at once, in either order.
			t.Errorf("served in the order %v, want c in the second pair", served)
		}
	})
}

// A place that is granted just as its caller gives up is not lost.
func TestPlacesSurviveCancellation(t *testing.T) {
	p := NewPlaces(2, 50)
	var work sync.WaitGroup
	for i := range 200 {
		work.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			if release, err := p.Acquire(ctx, fmt.Sprint(i%3)); err == nil {
				release()
			}
		})
	}
	work.Wait()
	if p.held != 0 || len(p.holders) != 0 || p.line.Len() != 0 {
		t.Errorf("%d held, %d organizations and %d turns are left", p.held, len(p.holders), p.line.Len())
	}
}

// A call that finds a free place doesn't pay for the line.
func TestFreePlacesCostNoAllocation(t *testing.T) {
	p := NewPlaces(4, 50)
	allocations := testing.AllocsPerRun(100, func() {
		if err := p.AcquireWithin(t.Context(), "a", time.Second, "busy"); err != nil {
			t.Error(err)
		}
		p.Release("a")
	})
	if allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}
