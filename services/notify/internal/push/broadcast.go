package push

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

// Bounds and intervals of a broadcast.
const (
	// pageSize is how many devices are added in one transaction.
	pageSize = 500
	// maxWaiting is how many devices of one broadcast are queued at a time, so that a large one does not delay all
	// other pushes.
	maxWaiting = 2000
	// idleWait is the interval at which a replica looks for a broadcast to continue.
	idleWait = 250 * time.Millisecond
	// awayWait is how long it waits after a failure of the store.
	awayWait = 2 * time.Second
)

// Pages adds the devices of broadcasts, page by page.
type Pages interface {
	// AddPage adds the next devices, at most size, of a broadcast of which fewer than waiting are queued. It reports
	// whether there was one.
	AddPage(ctx context.Context, size, waiting int) (found bool, err error)
}

// Broadcaster turns accepted broadcasts into pushes. A page and its end position are stored in one transaction: after
// a crash another replica continues from there, and no device is notified twice. It holds one page in memory, however
// many devices there are.
type Broadcaster struct {
	pages Pages
	added func() // wakes the dispatcher of pushes
	log   *slog.Logger
}

// NewBroadcaster returns a Broadcaster that calls added after each page.
func NewBroadcaster(pages Pages, added func(), log *slog.Logger) *Broadcaster {
	return &Broadcaster{pages, added, log}
}

// Run adds pages until ctx ends.
func (b *Broadcaster) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			timer.Reset(b.step(ctx))
		}
	}
}

// step adds a page and returns how long to wait before the next.
func (b *Broadcaster) step(ctx context.Context) time.Duration {
	var found bool
	err := lifecycle.Protect(ctx, "notify broadcast", func() (err error) {
		found, err = b.pages.AddPage(ctx, pageSize, maxWaiting)
		return err
	})
	switch {
	case err != nil && ctx.Err() == nil:
		b.log.WarnContext(ctx, "adding a page of a broadcast failed", slog.String("error", err.Error()))
		return awayWait
	case !found:
		return idleWait
	}
	b.added()
	return 0
}
