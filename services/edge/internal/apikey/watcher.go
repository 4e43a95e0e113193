package apikey

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// pollEvery and pollTime together make a change known within a second.
	pollEvery = 400 * time.Millisecond
	pollTime  = 500 * time.Millisecond
	// refreshTime is enough for a poll in progress and the next one.
	refreshTime = 2 * pollTime
	// usesEvery is the interval at which last uses are stored.
	usesEvery = time.Minute
	// page bounds how many changes one read returns.
	page = 500
)

// Feed is the durable, ordered list of all changes of keys.
type Feed interface {
	// Position returns the number of the last change.
	Position(ctx context.Context) (int64, error)
	// ChangedSince returns up to limit digests whose last change has a number above position, in order, and the
	// number of the last one.
	ChangedSince(ctx context.Context, position int64, limit int) ([]Digest, int64, error)
	// Touch stores last uses by key id.
	Touch(ctx context.Context, uses map[string]time.Time) error
}

// Watcher follows the feed. It makes a Verifier forget changed keys and end the calls of invalid ones. Announcements
// are faster but may get lost; the feed is complete.
type Watcher struct {
	verifier *Verifier
	feed     Feed
	log      *slog.Logger
	position int64
	current  atomic.Int64 // Unix nanoseconds of the last successful poll
	wanted   chan chan struct{}
}

// NewWatcher starts at the feed's current position. It must be called before the verifier serves its first request.
func NewWatcher(ctx context.Context, verifier *Verifier, feed Feed, log *slog.Logger) (*Watcher, error) {
	position, err := feed.Position(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the position of the key feed: %w", err)
	}
	w := &Watcher{verifier: verifier, feed: feed, log: log, position: position, wanted: make(chan chan struct{})}
	w.current.Store(time.Now().UnixNano())
	return w, nil
}

// Run polls until ctx ends. It continues after every failure of the feed and logs only the first of a row.
func (w *Watcher) Run(ctx context.Context) error {
	poll, uses := time.NewTicker(pollEvery), time.NewTicker(usesEvery)
	defer poll.Stop()
	defer uses.Stop()
	failing := false
	for {
		var polled chan struct{} // nil unless Refresh waits
		select {
		case <-ctx.Done():
			return nil
		case <-uses.C:
			w.Flush(ctx)
			continue
		case polled = <-w.wanted:
		case <-poll.C:
		}
		err := w.poll(ctx)
		if polled != nil {
			close(polled)
		}
		w.verifier.review(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			w.log.WarnContext(ctx, "key feed cannot be read", "error", err.Error())
		case err == nil && failing:
			w.log.InfoContext(ctx, "key feed can be read again")
		}
		failing = err != nil
	}
}

// Refresh returns once Run has read the changes that were made before, or has failed to. It waits for at most
// refreshTime: Run finds the changes later anyway.
func (w *Watcher) Refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	polled := make(chan struct{})
	select {
	case w.wanted <- polled:
	case <-ctx.Done():
		return
	}
	select {
	case <-polled:
	case <-ctx.Done():
	}
}

// poll reads all changes since the last known one.
func (w *Watcher) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	newest, err := w.feed.Position(ctx)
	if err != nil {
		return fmt.Errorf("read position: %w", err)
	}
	if newest < w.position { // The database was restored from a backup.
		w.verifier.forgetAll()
		w.position = newest
	}
	for w.position < newest {
		changed, last, err := w.feed.ChangedSince(ctx, w.position, page)
		if err != nil {
			return fmt.Errorf("read changes: %w", err)
		}
		for _, digest := range changed {
			w.verifier.Forget(digest)
		}
		w.position = max(last, w.position)
		if len(changed) < page {
			w.position = max(newest, w.position)
		}
	}
	w.current.Store(time.Now().UnixNano())
	return nil
}

// Behind returns the time since the watcher was last up to date.
func (w *Watcher) Behind() time.Duration {
	return time.Since(time.Unix(0, w.current.Load()))
}

// Flush stores the last uses of keys. If that fails they are lost: they are informational.
func (w *Watcher) Flush(ctx context.Context) {
	uses := w.verifier.cache.uses()
	if len(uses) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	if err := w.feed.Touch(ctx, uses); err != nil {
		w.log.WarnContext(ctx, "last uses of keys not stored", "keys", len(uses), "error", err.Error())
	}
}
