// Package control makes every replica follow what operators and organizations
// set (suspensions, revocations, credentials, pins), within a second. Postgres
// is the truth: a change moves its topic's version on, and a Watcher that sees
// a newer version has the topic's owner load what changed. A wake-up through
// Redis only makes it sooner. While Postgres is away the last known state holds.
// internal/app wires owners to topics; internal/postgres has the versions.
package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

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
)

// ErrUnchanged is what a change returns that finds nothing to do: it leaves no
// version and no audit behind.
var ErrUnchanged = errors.New("nothing to change")

const (
	// pollEvery keeps the promise of a second without any wake-up.
	pollEvery = 300 * time.Millisecond
	// pollTime bounds one look with all that it loads.
	pollTime = 5 * time.Second
	// staleAfter is when a replica that can't look says so.
	staleAfter = 10 * time.Second
	// reachTime bounds how long a writer waits for its own change to be in force.
	reachTime = time.Second
)

// Store has the versions.
type Store interface {
	// Versions of all topics.
	Versions(ctx context.Context) (map[Topic]int64, error)
}

// Load takes what changed after a version into memory and returns the version
// that it is level with. Version 0 asks for everything.
type Load func(ctx context.Context, since int64) (level int64, err error)

// Watcher keeps a replica level with the store. Watch before Start, Start
// before Run.
type Watcher struct {
	store  Store
	log    *slog.Logger
	topics map[Topic]*watched
	wake   chan struct{}
	looked atomic.Int64 // when it last succeeded, in Unix nanoseconds
}

type watched struct {
	load Load
	// turn is full while one loads.
	turn  chan struct{}
	level atomic.Int64
}

// reach loads what changed, unless the level is that of the version already. One
// caller loads at a time; those that waited for it seldom have anything left to load.
func (w *watched) reach(ctx context.Context, version int64) error {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-w.turn }()
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

// NewWatcher returns a watcher of no topics.
func NewWatcher(store Store, log *slog.Logger) *Watcher {
	return &Watcher{store: store, log: log, topics: make(map[Topic]*watched), wake: make(chan struct{}, 1)}
}

// Watch makes load follow a topic.
func (w *Watcher) Watch(topic Topic, load Load) {
	w.topics[topic] = &watched{load: load, turn: make(chan struct{}, 1)}
}

// Start loads every topic, so that a replica never serves without knowing who
// is suspended.
func (w *Watcher) Start(ctx context.Context) error {
	for topic, of := range w.topics {
		level, err := of.load(ctx, 0)
		if err != nil {
			return fmt.Errorf("load %s: %w", topic, err)
		}
		of.level.Store(level)
	}
	w.looked.Store(time.Now().UnixNano())
	return nil
}

// Wake has the watcher look at once; many at a time become one.
func (w *Watcher) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Reach loads a version of a topic that has just been committed, so that a writer
// reads its own write on the replica that answers it. It waits a second at most and
// goes on when the writer leaves: the change stands in any case, and a replica that
// could not load it here follows it as all others do.
func (w *Watcher) Reach(ctx context.Context, topic Topic, version int64) {
	of, ok := w.topics[topic]
	if !ok || of.level.Load() >= version {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachTime)
	defer cancel()
	if err := of.reach(bounded, version); err != nil {
		w.log.WarnContext(ctx, "a change is not in force here yet", slog.String("topic", string(topic)), slog.String("error", err.Error()))
	}
}

// Run looks for changes until ctx ends. It is a part of the service's lifecycle.
func (w *Watcher) Run(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: pollEvery, Wake: w.wake, Do: w.look, Log: w.log,
		Name: "follow settings",
	}.Run(ctx)
}

// look loads each topic that moved on. One that fails doesn't hold up the others.
func (w *Watcher) look(ctx context.Context) error {
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
		if err := of.reach(ctx, versions[topic]); err != nil {
			errs = append(errs, fmt.Errorf("load %s: %w", topic, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	w.looked.Store(time.Now().UnixNano())
	return nil
}

// Ready tells when the settings were not seen for long.
func (w *Watcher) Ready(context.Context) error {
	if age := time.Since(time.Unix(0, w.looked.Load())); age > staleAfter {
		return fmt.Errorf("settings of %s ago", age.Round(time.Second))
	}
	return nil
}
