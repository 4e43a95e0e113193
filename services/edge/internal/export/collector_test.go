package export

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Processes that end after a few rounds collect all old hours among them.
func TestShortLivesCollectAllHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{fence: 1}
		for range chunks/10 + 1 {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
			w := newSender(t, store, nil).Worker // It collects once a minute.
			if err := w.Run(ctx); err != nil {
				t.Fatal(err)
			}
			stop()
		}
		seen := make(map[time.Duration]bool)
		for i, from := range store.collected {
			if i%2 == 1 { // Each round first collects the recent hours.
				seen[store.collected[i-1].Sub(from)/chunk] = true
			}
		}
		if len(seen) < chunks-1 {
			t.Errorf("%d of %d parts of the old hours are collected", len(seen), chunks)
		}
	})
}
