package byok

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/panics"
)

const (
	// keepEvery is how often uses are stored, and idle secrets forgotten.
	keepEvery = 10 * time.Second
	// batch is how many uses are stored in one statement.
	batch = 1000
	// lastTime bounds storing the last uses before the process ends.
	lastTime = 2 * time.Second
)

// Run maintains the vault until ctx ends: it reads secrets again that have grown old,
// stores when credentials were last used, and forgets secrets that are not in use. It
// is a part of the service's lifecycle.
func (v *Vault) Run(ctx context.Context) error {
	var group errgroup.Group
	for range readers {
		group.Go(panics.Guard(func() error {
			v.refreshAll(ctx)
			return nil
		}))
	}
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			v.forgetIdle(time.Now())
			v.storeUses(ctx)
		}
	}
	_ = group.Wait() // None of them fails.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	v.storeUses(ctx)
	return nil
}

func (v *Vault) refreshAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case h := <-v.refresh:
			_, _ = v.read(ctx, h) // It has said in the log what came of it.
			h.asked.Store(false)
		}
	}
}

// each calls f with every configuration.
func (v *Vault) each(f func(*held)) {
	v.organizations.Range(func(_, of any) bool {
		for _, h := range of.(map[string]*held) { //nolint:errcheck // The map holds nothing else.
			f(h)
		}
		return true
	})
}

// forgetIdle keeps plain secrets in memory only as long as they are used.
func (v *Vault) forgetIdle(now time.Time) {
	var secrets int64
	before := now.Add(-idleAfter).UnixNano()
	v.each(func(h *held) {
		if h.touched.Load() < before {
			v.drop(h)
		}
		if h.present.Load() != nil {
			secrets++
		}
	})
	v.secrets.Store(secrets) // Puts right what a race miscounted.
}

// storeUses writes the uses that the store doesn't know. Those that it can't take
// are tried again the next time.
func (v *Vault) storeUses(ctx context.Context) {
	var uses []Use
	var of []*held
	flush := func() {
		if len(uses) == 0 {
			return
		}
		if err := v.feed.Use(ctx, uses); err != nil {
			v.log.WarnContext(ctx, "the last use of credentials is not stored", slog.String("error", err.Error()))
		} else {
			for i, h := range of {
				h.stored = uses[i].At.UnixNano()
			}
		}
		uses, of = uses[:0], of[:0]
	}
	v.each(func(h *held) {
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
