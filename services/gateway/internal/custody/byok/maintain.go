package byok

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/panics"
)

const (
	// maintainEvery is how often uses are stored and idle secrets removed from memory.
	maintainEvery = 10 * time.Second
	// batch is the number of uses that one statement stores.
	batch = 1000
	// lastTime bounds storing the last uses before the process ends.
	lastTime = 2 * time.Second
)

// Run maintains the cache until ctx ends: it rereads old secrets, stores when credentials were last used, and removes
// unused secrets from memory. It is a part of the service's lifecycle.
func (c *Cache) Run(ctx context.Context) error {
	var group errgroup.Group
	for range readers {
		group.Go(panics.Guard(func() error {
			c.refreshAll(ctx)
			return nil
		}))
	}
	ticker := time.NewTicker(maintainEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			c.removeIdle(time.Now())
			c.storeUses(ctx)
		}
	}
	_ = group.Wait() // refreshAll returns no error.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	c.storeUses(ctx)
	return nil
}

func (c *Cache) refreshAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case h := <-c.refresh:
			_, _ = c.read(ctx, h) // The result is in the log.
			h.refreshing.Store(false)
		}
	}
}

// each calls f with every configuration.
func (c *Cache) each(f func(*entry)) {
	c.organizations.Range(func(_, of any) bool {
		for _, h := range of.(map[string]*entry) { //nolint:errcheck // The map holds nothing else.
			f(h)
		}
		return true
	})
}

// removeIdle removes plain secrets from memory that have not been used for idleAfter.
func (c *Cache) removeIdle(now time.Time) {
	var secrets int64
	before := now.Add(-idleAfter).UnixNano()
	c.each(func(h *entry) {
		if h.touched.Load() < before {
			c.drop(h)
		}
		if h.present.Load() != nil {
			secrets++
		}
	})
	c.secrets.Store(secrets) // Corrects a count that concurrent reads got wrong.
}

// storeUses stores the uses that the store doesn't have. Uses that it can't store are tried again the next time.
func (c *Cache) storeUses(ctx context.Context) {
	var uses []Use
	var of []*entry
	flush := func() {
		if len(uses) == 0 {
			return
		}
		if err := c.feed.Use(ctx, uses); err != nil {
			c.log.WarnContext(ctx, "the last use of credentials is not stored", slog.String("error", err.Error()))
		} else {
			for i, h := range of {
				h.stored = uses[i].At.UnixNano()
			}
		}
		uses, of = uses[:0], of[:0]
	}
	c.each(func(h *entry) {
		at := h.used.Load()
		if at <= h.stored {
			return
		}
		uses = append(uses, Use{h.config.Organization, h.config.Provider, time.Unix(0, at).UTC()})
		if of = append(of, h); len(of) == batch {
			flush()
		}
	})
	flush()
}
