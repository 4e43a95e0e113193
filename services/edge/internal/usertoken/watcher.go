package usertoken

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

const (
	// pollEvery and pollTime together make a change known within a second.
	pollEvery = 400 * time.Millisecond
	pollTime  = 500 * time.Millisecond
	// readTime bounds reading a whole policy.
	readTime = 5 * time.Second
	// readEvery is how often the policy is read without a change: a release that does not know tokens may have changed
	// an organization's limit.
	readEvery = time.Minute
	// refreshTime is enough for a poll in progress and the next one.
	refreshTime = 2 * pollTime
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
	log      *slog.Logger
	position int64
	read     time.Time
	wanted   chan chan struct{}
}

// NewWatcher puts the current policy in force.
func NewWatcher(ctx context.Context, verifier *Verifier, feed Feed, log *slog.Logger) (*Watcher, error) {
	w := &Watcher{verifier: verifier, feed: feed, log: log, wanted: make(chan chan struct{})}
	return w, w.load(ctx)
}

// Run polls until ctx ends. It continues after every failure of the feed and logs only the first of a row.
func (w *Watcher) Run(ctx context.Context) error {
	ticks := time.NewTicker(pollEvery)
	defer ticks.Stop()
	failing := false
	for {
		var polled chan struct{} // nil unless Refresh waits
		select {
		case <-ctx.Done():
			return nil
		case polled = <-w.wanted:
		case <-ticks.C:
		}
		err := w.poll(ctx)
		if polled != nil {
			close(polled)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			w.log.WarnContext(ctx, "policy of user tokens cannot be read", "error", err.Error())
		case err == nil && failing:
			w.log.InfoContext(ctx, "policy of user tokens can be read again")
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

// poll reads the policy if it has changed, or was read long ago.
func (w *Watcher) poll(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, pollTime)
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
