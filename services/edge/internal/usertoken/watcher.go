package usertoken

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/edge/internal/poll"
)

const (
	// readTime bounds reading a whole policy.
	readTime = 5 * time.Second
	// readEvery is how often the policy is read without a change: a release that does not know tokens may have changed
	// an organization's limit.
	readEvery = time.Minute
)

// Feed is where a Watcher reads the policy.
type Feed interface {
	// TokenPosition returns the number of the last change.
	TokenPosition(ctx context.Context) (int64, error)
	// TokenPolicy returns the policy with the changes up to its position at least, and its revocations after a moment.
	TokenPolicy(ctx context.Context, since time.Time) (Policy, error)
}

// Watcher keeps the policy of a Verifier current. While the feed fails, the last policy remains in force.
type Watcher struct {
	verifier *Verifier
	feed     Feed
	position int64
	read     time.Time
	loop     *poll.Loop
}

// NewWatcher puts the current policy in force.
func NewWatcher(ctx context.Context, verifier *Verifier, feed Feed, log *slog.Logger) (*Watcher, error) {
	w := &Watcher{verifier: verifier, feed: feed}
	w.loop = poll.New("policy of user tokens", w.poll, log)
	return w, w.load(ctx)
}

// Run keeps the policy current until ctx ends.
func (w *Watcher) Run(ctx context.Context) error { return w.loop.Run(ctx) }

// Refresh returns once Run has read the changes that were made before; see poll.Loop.
func (w *Watcher) Refresh(ctx context.Context) { w.loop.Refresh(ctx) }

// poll reads the policy if it has changed, or was read long ago.
func (w *Watcher) poll(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, poll.Most)
	defer cancel()
	position, err := w.feed.TokenPosition(short)
	if err != nil {
		return fmt.Errorf("read position: %w", err)
	}
	if position == w.position && time.Since(w.read) < readEvery {
		return nil
	}
	return w.load(ctx)
}

// load reads the policy and puts it in force.
func (w *Watcher) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	now := time.Now()
	policy, err := w.feed.TokenPolicy(ctx, now.Add(-MaxLife-skew))
	if err != nil {
		return fmt.Errorf("read the policy of user tokens: %w", err)
	}
	w.verifier.Use(policy)
	w.position, w.read = policy.Position, now
	return nil
}
