package redis

import (
	"context"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/platform/testkit"
)

// A replica's notification reaches the others, and it does not wait for a Redis that is out of reach.
func TestNotifier(t *testing.T) {
	client := testkit.Redis(t)
	a, b := NewNotifier(client), NewNotifier(client)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	notified := make(chan struct{}, 100)
	group.Go(func() { _ = a.Run(ctx, func() {}) })
	group.Go(func() { _ = b.Run(ctx, func() { notified <- struct{}{} }) })
	deadline := time.After(5 * time.Second)
	for received := false; !received; {
		a.Notify() // Again, until the other one has subscribed.
		select {
		case <-notified:
			received = true
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatal("no change was received")
		}
	}
	cancel()
	group.Wait()
	for range 1000 {
		a.Notify() // Without a receiver Notify doesn't block.
	}
}
