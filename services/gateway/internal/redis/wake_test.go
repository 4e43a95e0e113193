package redis

import (
	"context"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/platform/testkit"
)

// What one replica tells, the others hear, and it does not wait for a Redis that
// is away.
func TestWakes(t *testing.T) {
	client := testkit.Redis(t)
	a, b := NewWakes(client), NewWakes(client)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	heard := make(chan struct{}, 100)
	group.Go(func() { _ = a.Run(ctx, func() {}) })
	group.Go(func() { _ = b.Run(ctx, func() { heard <- struct{}{} }) })
	deadline := time.After(5 * time.Second)
	for told := false; !told; {
		a.Tell() // Again, until the other listens.
		select {
		case <-heard:
			told = true
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatal("nothing was heard")
		}
	}
	cancel()
	group.Wait()
	start := time.Now()
	for range 1000 {
		a.Tell() // Nothing receives it.
	}
	if took := time.Since(start); took > 100*time.Millisecond {
		t.Errorf("telling took %s", took)
	}
}
