package apikey

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/edge/internal/poll"
	"switchyard.dev/services/platform/lifecycle"
)

const (
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
	loop     *poll.Loop
}

// NewWatcher starts at the feed's current position. It must be called before the verifier serves its first request.
func NewWatcher(ctx context.Context, verifier *Verifier, feed Feed, log *slog.Logger) (*Watcher, error) {
	position, err := feed.Position(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the position of the key feed: %w", err)
	}
	w := &Watcher{verifier: verifier, feed: feed, log: log, position: position}
	w.loop = poll.New("key feed", w.follow, log)
	w.current.Store(time.Now().UnixNano())
	return w, nil
}

// Run polls, and stores last uses, until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return w.loop.Run(ctx) })
	group.Go(func() error {
		return lifecycle.Repeat{Every: usesEvery, Do: w.Flush, Log: w.log, Name: "last uses of keys"}.Run(ctx)
	})
	return group.Wait()
}

// Refresh returns once Run has read the changes that were made before; see poll.Loop.
func (w *Watcher) Refresh(ctx context.Context) { w.loop.Refresh(ctx) }

// follow reads the changes and ends the calls of keys that are no longer valid.
func (w *Watcher) follow(ctx context.Context) error {
	err := w.poll(ctx)
	w.verifier.review(ctx)
	return err
}

// poll reads all changes since the last known one.
func (w *Watcher) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, poll.Most)
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
func (w *Watcher) Flush(ctx context.Context) error {
	uses := w.verifier.cache.uses()
	if len(uses) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	if err := w.feed.Touch(ctx, uses); err != nil {
		return fmt.Errorf("store the last uses of %d keys: %w", len(uses), err)
	}
	return nil
}
