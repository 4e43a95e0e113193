package steering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Kind selects the pin or the canary.
type Kind string

// The kinds.
const (
	KindPin    Kind = "pin"
	KindCanary Kind = "canary"
)

// Store stores the settings. A change that changes nothing returns the current setting.
type Store interface {
	// State returns the settings and the topic version that they have.
	State(ctx context.Context) (State, int64, error)
	// Change applies a change to one of the settings, with its audit entry; see Setting.Apply.
	Change(ctx context.Context, kind Kind, c Change) (Setting, error)
	// AddArms adds to the counts of a canary, by its revision.
	AddArms(ctx context.Context, revision int, add Arms) error
	// Arms returns the counts of a canary.
	Arms(ctx context.Context, revision int) (Arms, error)
}

// Arm holds the counts of one arm's requests.
type Arm struct {
	Requests int64
	// Failed counts the requests that no provider served because of a provider's failure; FailedOver counts those that
	// a candidate other than the first served.
	Failed, FailedOver int64
	// Latency is the sum over the requests that were served.
	Latency time.Duration
}

func (a Arm) plus(b Arm) Arm {
	return Arm{a.Requests + b.Requests, a.Failed + b.Failed, a.FailedOver + b.FailedOver, a.Latency + b.Latency}
}

// ErrorRate returns the share of requests that the first candidate did not serve, from 0 to 1.
func (a Arm) ErrorRate() float64 {
	if a.Requests == 0 {
		return 0
	}
	return float64(a.Failed+a.FailedOver) / float64(a.Requests)
}

// MeanLatency returns the mean latency of the requests that were served, or 0 if there are none.
func (a Arm) MeanLatency() time.Duration {
	if a.Requests == a.Failed {
		return 0
	}
	return a.Latency / time.Duration(a.Requests-a.Failed)
}

// Arms holds the counts of the canary and of all other requests. They are sums in Postgres by revision, which each
// replica adds to once a second. Requests that failed through their own fault are in neither.
type Arms struct{ Canary, Stable Arm }

func (a Arms) plus(b Arms) Arms { return Arms{a.Canary.plus(b.Canary), a.Stable.plus(b.Stable)} }

// CanarySample is the outcome of one request while a canary was set.
type CanarySample struct {
	// Revision identifies the canary; Canary reports whether it took the request.
	Revision int
	Canary   bool
	// Failed and FailedOver are as in Arm; Took is the duration of the request.
	Failed, FailedOver bool
	Took               time.Duration
}

// Overrides holds the settings in force on this replica. Safe for concurrent use.
type Overrides struct {
	store    Store
	log      *slog.Logger
	override atomic.Pointer[Override]
	// loading prevents an older state from replacing a newer one.
	loading sync.Mutex

	mu sync.Mutex
	// counted holds what this replica has counted but not stored yet, by revision.
	counted map[int]Arms
}

// NewOverrides returns Overrides with no pin and no canary.
func NewOverrides(store Store, log *slog.Logger) *Overrides {
	o := &Overrides{store: store, log: log, counted: make(map[int]Arms)}
	o.override.Store(&Override{})
	return o
}

// Override returns the settings in force.
func (o *Overrides) Override() Override { return *o.override.Load() }

// Load puts the stored settings into force; see control.Load.
func (o *Overrides) Load(ctx context.Context, since int64) (int64, error) {
	o.loading.Lock()
	defer o.loading.Unlock()
	state, level, err := o.store.State(ctx)
	if err != nil {
		return since, err
	}
	o.override.Store(new(state.Override()))
	return max(level, since), nil
}

// State reads the settings from the store, so that a reader sees the change before.
func (o *Overrides) State(ctx context.Context) (State, error) {
	state, _, err := o.store.State(ctx)
	return state, err
}

// Set makes a change and puts it into force on this replica at once.
func (o *Overrides) Set(ctx context.Context, kind Kind, c Change) (Setting, error) {
	setting, err := o.store.Change(ctx, kind, c)
	if err != nil {
		return Setting{}, err
	}
	if _, err := o.Load(ctx, 0); err != nil { // The watcher applies it in any case.
		o.log.WarnContext(ctx, "a change of the routing is not in force on this replica yet", slog.String("error", err.Error()))
	}
	return setting, nil
}

// Record counts a request. Call it only while a canary is set.
func (o *Overrides) Record(t CanarySample) {
	arm := Arm{Requests: 1}
	switch {
	case t.Failed:
		arm.Failed = 1
	case t.FailedOver:
		arm.FailedOver, arm.Latency = 1, t.Took
	default:
		arm.Latency = t.Took
	}
	add := Arms{Stable: arm}
	if t.Canary {
		add = Arms{Canary: arm}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counted[t.Revision] = o.counted[t.Revision].plus(add)
}

// Arms returns the counts of a canary from all replicas, as far as they are stored, and from this one.
func (o *Overrides) Arms(ctx context.Context, revision int) (Arms, error) {
	stored, err := o.store.Arms(ctx, revision)
	if err != nil {
		return Arms{}, fmt.Errorf("canary arms: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return stored.plus(o.counted[revision]), nil
}

const (
	flushEvery = time.Second
	flushTime  = 2 * time.Second
	// maxCounted bounds the number of canaries that are counted while the store is unavailable.
	maxCounted = 16
)

// Run stores the counts until ctx ends. It is a part of the service's lifecycle.
func (o *Overrides) Run(ctx context.Context) error {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return o.Close(context.WithoutCancel(ctx))
		case <-ticker.C:
			_ = o.flush(ctx) // What fails is kept for the next time.
		}
	}
}

// Close stores the remaining counts. Counts that can't be stored are lost, which a statistic may be.
func (o *Overrides) Close(ctx context.Context) error {
	if err := o.flush(ctx); err != nil {
		o.log.WarnContext(ctx, "the last counts of the canary are not stored", slog.String("error", err.Error()))
	}
	return nil
}

func (o *Overrides) flush(ctx context.Context) error {
	o.mu.Lock()
	counted := o.counted
	if len(counted) == 0 {
		o.mu.Unlock()
		return nil
	}
	o.counted = make(map[int]Arms)
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	var errs []error
	for revision, arms := range counted {
		if err := o.store.AddArms(ctx, revision, arms); err != nil {
			errs = append(errs, err)
			o.requeue(revision, arms)
		}
	}
	return errors.Join(errs...)
}

func (o *Overrides) requeue(revision int, arms Arms) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.counted[revision]; known || len(o.counted) < maxCounted {
		o.counted[revision] = o.counted[revision].plus(arms)
	}
}
