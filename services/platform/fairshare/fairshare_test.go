package fairshare

import (
	"strconv"
	"sync"
	"testing"
)

func TestOneOrganizationHoldsItsPart(t *testing.T) {
	p := New(100, 75)
	if !p.Acquire("a", 75) {
		t.Fatal("an organization can't take its share of an empty pool")
	}
	if p.Acquire("a", 1) {
		t.Error("an organization took more than its share")
	}
	if !p.Full("a") || p.Full("b") {
		t.Error("Full is wrong: a has used up its share, b has not")
	}
	if !p.Acquire("b", 25) {
		t.Error("another organization can't take what is left")
	}
	if p.Acquire("c", 1) || !p.Full("c") {
		t.Error("more was taken than the pool holds")
	}
	p.Release("a", 75)
	p.Release("b", 25)
	if p.Held() != 0 || p.Refused() != 2 {
		t.Errorf("%d held, %d refused after everything was given back", p.Held(), p.Refused())
	}
}

// The share of a small pool is not rounded down to nothing.
func TestPartsAreRoundedUp(t *testing.T) {
	for limit, want := range map[int64]int64{1: 1, 2: 2, 3: 3, 4: 3, 8: 6, 1024: 768} {
		if got := New(limit, 75).share; got != want {
			t.Errorf("share of %d = %d, want %d", limit, got, want)
		}
	}
	if got := New(1<<62, 75).share; got <= 0 {
		t.Errorf("share of a huge pool = %d", got)
	}
}

// An organization that holds no units takes no memory.
func TestReleasedOrganizationsAreForgotten(t *testing.T) {
	p := New(1<<20, 75)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 25_000 {
				name := strconv.Itoa(worker) + "-" + strconv.Itoa(i)
				if p.Acquire(name, 3) {
					p.Release(name, 3)
				}
			}
		})
	}
	wg.Wait()
	left := 0
	for i := range p.shards {
		left += len(p.shards[i].held)
	}
	if left != 0 || p.Held() != 0 {
		t.Errorf("%d organizations and %d units are left", left, p.Held())
	}
}
