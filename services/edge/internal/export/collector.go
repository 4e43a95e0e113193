package export

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const (
	// recent are the hours that each round collects; older ones take turns, chunk by chunk.
	recent = 3 * time.Hour
	chunk  = 6 * time.Hour
	chunks = int((Window - recent) / chunk)
	// Window is how old an hour may be whose late counts are still exported. Stripe takes events of 35 days.
	Window = 34 * 24 * time.Hour
	// Kept is how long growths are kept, and refusals and finished back-fills, too. It is more than Window: an hour that
	// is collected must have all its growths.
	Kept = 41 * 24 * time.Hour
	// dropPage is the number of rows that are dropped at once.
	dropPage = 5000
)

// Collector records by how much counts have grown. It is not safe for concurrent use.
type Collector struct {
	store  Store
	holder string
	lease  time.Duration
	every  time.Duration

	// turn says which chunk of old hours is next. It begins with the time, so that processes that end early don't all
	// collect the same chunks.
	turn  int
	begun bool
}

func newCollector(o Options) *Collector {
	return &Collector{store: o.Store, holder: o.Holder, lease: o.Settings.Lease, every: o.Settings.Every}
}

// Round collects the growth of recent hours and of one chunk of older ones, if this process has the lease. Counts that
// come late, from the disk of a replica that was down, are so collected within some 140 rounds.
func (c *Collector) Round(ctx context.Context) error {
	now := time.Now().UTC()
	fence, held, err := c.store.Lease(ctx, "collector", c.holder, c.lease)
	if err != nil || !held {
		return err
	}
	if !c.begun {
		c.turn, c.begun = int(now.UnixNano()/int64(c.every))%chunks, true
	}
	older := olderHours(now, c.turn)
	c.turn++
	for _, hours := range []span{recentHours(now), older} {
		if _, err := c.store.Collect(ctx, fence, hours.from, hours.to, now); err != nil {
			return fmt.Errorf("collect the counts of %s: %w", hours.from.Format(time.RFC3339), err)
		}
	}
	_, err = c.store.Drop(ctx, now.Add(-Kept), now.Add(-Kept), dropPage)
	return err
}

// span is the hours from one to before another.
type span struct{ from, to time.Time }

// recentHours returns the hours of each round. Counts of replicas whose clock is ahead are included.
func recentHours(now time.Time) span {
	hour := now.Truncate(time.Hour)
	return span{hour.Add(-recent), hour.Add(2 * time.Hour)}
}

// olderHours returns the chunk of older hours of a turn: from the newest to the oldest of the window, then again.
func olderHours(now time.Time, turn int) span {
	to := now.Truncate(time.Hour).Add(-recent - time.Duration(turn%chunks)*chunk)
	return span{to.Add(-chunk), to}
}

// CountFeed reads the recorded growths as a source.
type CountFeed struct{ store Store }

// NewCountFeed returns the feed of a store.
func NewCountFeed(store Store) CountFeed { return CountFeed{store} }

// Waiting implements Pager. Counts wait for their interval, so that each of them is large.
func (f CountFeed) Waiting(context.Context, string) int { return 0 }

// Page implements Pager. The position is the id of the last growth.
func (f CountFeed) Page(ctx context.Context, c Cursor, limit int) (Page, error) {
	var last int64
	if c.Position != "" {
		var err error
		if last, err = strconv.ParseInt(c.Position, 10, 64); err != nil {
			return Page{}, fmt.Errorf("position %q of the counts: %w", c.Position, err)
		}
	}
	growths, err := f.store.Growths(ctx, last, c.Since, c.Until, limit)
	if err != nil {
		return Page{}, fmt.Errorf("read counts: %w", err)
	}
	page := Page{Next: c.Position, End: len(growths) < limit}
	for _, g := range growths {
		page.Entries = append(page.Entries, g.Entry())
		page.Next = strconv.FormatInt(g.ID, 10)
	}
	return page, nil
}
