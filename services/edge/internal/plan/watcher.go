package plan

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/edge/internal/poll"
)

// Feed reads all plans.
type Feed interface {
	// PlanPosition returns the number of the last change of any plan.
	PlanPosition(ctx context.Context) (int64, error)
	// Plans returns all plans in the order of their names.
	Plans(ctx context.Context) ([]Plan, error)
}

// Watcher holds all plans in memory and follows their changes. It is safe for concurrent use.
type Watcher struct {
	feed  Feed
	log   *slog.Logger
	plans atomic.Pointer[map[string]*Plan]
	// mu makes readings follow each other, so that an older one never replaces a newer one.
	mu       sync.Mutex
	position int64
}

// startTime bounds the first reading: databases are slow while everything starts at once.
const startTime = 30 * time.Second

// NewWatcher returns a Watcher that holds the plans of now.
func NewWatcher(ctx context.Context, feed Feed, log *slog.Logger) (*Watcher, error) {
	w := &Watcher{feed: feed, log: log, position: -1}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return w, w.read(ctx)
}

// Plan returns the plan of a name, nil if there is none, with a limit of credits if it is prepaid. The caller must not
// change it. It costs no I/O and no allocation.
func (w *Watcher) Plan(name string) *Plan { return (*w.plans.Load())[name] }

// Run keeps the plans current until ctx ends.
func (w *Watcher) Run(ctx context.Context) error { return poll.New("plans", w.Refresh, w.log).Run(ctx) }

// Refresh reads the plans if any has changed.
func (w *Watcher) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, poll.Most)
	defer cancel()
	return w.read(ctx)
}

func (w *Watcher) read(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	position, err := w.feed.PlanPosition(ctx)
	if err != nil {
		return fmt.Errorf("read the position of plans: %w", err)
	}
	if position == w.position {
		return nil
	}
	plans, err := w.feed.Plans(ctx)
	if err != nil {
		return fmt.Errorf("read plans: %w", err)
	}
	byName := make(map[string]*Plan, len(plans))
	for i := range plans {
		if plans[i].Prepaid {
			plans[i].Limits = append(plans[i].Limits, prepaid)
		}
		byName[plans[i].Name] = &plans[i]
	}
	w.plans.Store(&byName)
	w.position = position
	return nil
}
