// Package control makes every replica apply what operators and organizations set (suspensions, revocations,
// credentials, pins) within a second. Postgres is the source of truth: a change increments its topic's version, and a
// Watcher that sees a newer version makes the topic's owner load what changed. A wake-up through Redis only makes it
// faster. While Postgres is unavailable the last known settings stay in force. internal/app connects owners with
// topics; internal/postgres stores the versions.
package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/lifecycle"
)

// Topic is a group of settings with one version.
type Topic string

// The topics.
const (
	Organizations Topic = "organization"
	Runs          Topic = "run"
	Credentials   Topic = "credential"
	Routing       Topic = "routing"
	Models        Topic = "model"
	Policy        Topic = "policy"
	Trust         Topic = "trust"
	Tools         Topic = "tool"
	Approvals     Topic = "approval"
)

// ErrUnchanged is the error of a change that changes nothing: it creates no version and no audit entry.
var ErrUnchanged = errors.New("nothing to change")

const (
	// pollEvery keeps the bound of one second without any wake-up.
	pollEvery = 300 * time.Millisecond
	// pollTime bounds one poll including everything that it loads.
	pollTime = 5 * time.Second
	// loadTime bounds how long a writer waits until its own change is in force.
	loadTime = time.Second
)

// Store stores the versions.
type Store interface {
	// Versions returns the versions of all topics.
	Versions(ctx context.Context) (map[Topic]int64, error)
}

// Load loads into memory what changed after version since, and returns the version that memory then has. Version 0
// loads everything.
type Load func(ctx context.Context, since int64) (level int64, err error)

// Watcher keeps a replica's settings up to date with the store. Call Watch before Start, and Start before Run.
type Watcher struct {
	store  Store
	log    *slog.Logger
	topics map[Topic]*watched
	wake   chan struct{}
	stale  time.Duration
	polled atomic.Int64 // time of the last success, in Unix nanoseconds
}

type watched struct {
	load Load
	// loading is a semaphore: it is full while one caller loads.
	loading chan struct{}
	level   atomic.Int64
}

// catchUp loads what changed, unless level is at least version already. One caller loads at a time; those that waited for
// it rarely have anything left to load.
func (w *watched) catchUp(ctx context.Context, version int64) error {
	select {
	case w.loading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-w.loading }()
	before := w.level.Load()
	if before >= version {
		return nil
	}
	level, err := w.load(ctx, before)
	if err != nil {
		return err
	}
	w.level.Store(level)
	return nil
}

// NewWatcher returns a Watcher without topics, which is not ready once no poll has succeeded for the time stale.
func NewWatcher(store Store, stale time.Duration, log *slog.Logger) *Watcher {
	return &Watcher{store: store, stale: stale, log: log, topics: make(map[Topic]*watched), wake: make(chan struct{}, 1)}
}

// Watch registers load for a topic.
func (w *Watcher) Watch(topic Topic, load Load) {
	w.topics[topic] = &watched{load: load, loading: make(chan struct{}, 1)}
}

// Start loads every topic, so that a replica never serves without knowing which organizations are suspended.
func (w *Watcher) Start(ctx context.Context) error {
	for topic, of := range w.topics {
		level, err := of.load(ctx, 0)
		if err != nil {
			return fmt.Errorf("load %s: %w", topic, err)
		}
		of.level.Store(level)
	}
	w.polled.Store(time.Now().UnixNano())
	return nil
}

// Wake makes the watcher poll at once. Concurrent wake-ups are merged.
func (w *Watcher) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// LoadVersion loads a version of a topic that has just been committed, so that a writer reads its own write on the replica
// that answers it. It waits at most one second, also after ctx has ended: the change is committed in any case, and a
// replica that can't load it here follows it by polling, as all others do.
func (w *Watcher) LoadVersion(ctx context.Context, topic Topic, version int64) {
	of, ok := w.topics[topic]
	if !ok || of.level.Load() >= version {
		return
	}
	// The poller and other organizations' calls wait for this load, so it must not wait for the caller's turn.
	shared := caller.With(context.WithoutCancel(ctx), caller.Caller{})
	bounded, cancel := context.WithTimeout(shared, loadTime)
	defer cancel()
	if err := of.catchUp(bounded, version); err != nil {
		w.log.WarnContext(ctx, "a change is not in force on this replica yet", slog.String("topic", string(topic)), slog.String("error", err.Error()))
	}
}

// Run polls for changes until ctx ends. It is a part of the service's lifecycle.
func (w *Watcher) Run(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: pollEvery, Wake: w.wake, Do: w.poll, Log: w.log,
		Name: "follow settings",
	}.Run(ctx)
}

// poll loads each topic that has a newer version. A topic that fails doesn't delay the others.
func (w *Watcher) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	versions, err := w.store.Versions(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for topic, of := range w.topics {
		if versions[topic] <= of.level.Load() {
			continue
		}
		if err := of.catchUp(ctx, versions[topic]); err != nil {
			errs = append(errs, fmt.Errorf("load %s: %w", topic, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	w.polled.Store(time.Now().UnixNano())
	return nil
}

// Ready returns an error if no poll has succeeded for too long.
func (w *Watcher) Ready(context.Context) error {
	if age := time.Since(time.Unix(0, w.polled.Load())); age > w.stale {
		return fmt.Errorf("settings were last read %s ago", age.Round(time.Second))
	}
	return nil
}
