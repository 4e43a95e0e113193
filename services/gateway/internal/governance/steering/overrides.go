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

// Kind is which of the two settings is meant.
type Kind string

// The kinds.
const (
	KindPin    Kind = "pin"
	KindCanary Kind = "canary"
)

// Store keeps the settings. A change that makes no difference gives the present one.
type Store interface {
	// State of the store, and the version of the topic that it is level with.
	State(ctx context.Context) (State, int64, error)
	// Change applies a change to one of them, with its audit; see Setting.Apply.
	Change(ctx context.Context, kind Kind, c Change) (Setting, error)
	// AddArms adds to what came of a canary, by its revision.
	AddArms(ctx context.Context, revision int, add Arms) error
	// Arms is what has come of it.
	Arms(ctx context.Context, revision int) (Arms, error)
}

// Arm is what came of the requests of one arm.
type Arm struct {
	Requests int64
	// Failed counts those that no provider served, by a provider's fault; FailedOver
	// those that another than the first candidate served.
	Failed, FailedOver int64
	// Latency is the sum of those that were served.
	Latency time.Duration
}

func (a Arm) plus(b Arm) Arm {
	return Arm{a.Requests + b.Requests, a.Failed + b.Failed, a.FailedOver + b.FailedOver, a.Latency + b.Latency}
}

// ErrorRate is the share that the first candidate did not serve, 0..1.
func (a Arm) ErrorRate() float64 {
	if a.Requests == 0 {
		return 0
	}
	return float64(a.Failed+a.FailedOver) / float64(a.Requests)
}

// MeanLatency of the answers that were served.
func (a Arm) MeanLatency() time.Duration {
	if a.Requests == a.Failed {
		return 0
	}
	return a.Latency / time.Duration(a.Requests-a.Failed)
}

// Arms are the canary's and that of all other requests.
type Arms struct{ Canary, Stable Arm }

func (a Arms) plus(b Arms) Arms { return Arms{a.Canary.plus(b.Canary), a.Stable.plus(b.Stable)} }

// CanarySample is what came of one request while a canary was set.
type CanarySample struct {
	// Revision of the canary; Canary tells that it took the request.
	Revision int
	Canary   bool
	// Failed and FailedOver are as in Arm, Took is the request's time.
	Failed, FailedOver bool
	Took               time.Duration
}

// Overrides are the settings in force on this replica. Safe for concurrent use.
type Overrides struct {
	store    Store
	log      *slog.Logger
	override atomic.Pointer[Override]
	// loading keeps an older state from being put in the place of a newer one.
	loading sync.Mutex

	mu sync.Mutex
	// seen is what this replica has counted and not stored, by revision.
	seen map[int]Arms
}

// NewOverrides returns Overrides with no pin and no canary.
func NewOverrides(store Store, log *slog.Logger) *Overrides {
	o := &Overrides{store: store, log: log, seen: make(map[int]Arms)}
	o.override.Store(&Override{})
	return o
}

// Override is the one in force.
func (o *Overrides) Override() Override { return *o.override.Load() }

// Load takes what is set into force; see control.Load.
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

// State reads what is set from the store, so that who reads after a change sees it.
func (o *Overrides) State(ctx context.Context) (State, error) {
	state, _, err := o.store.State(ctx)
	return state, err
}

// Set makes a change and takes it into force here at once.
func (o *Overrides) Set(ctx context.Context, kind Kind, c Change) (Setting, error) {
	setting, err := o.store.Change(ctx, kind, c)
	if err != nil {
		return Setting{}, err
	}
	if _, err := o.Load(ctx, 0); err != nil { // The watcher finds it in any case.
		o.log.WarnContext(ctx, "a change of the routing is not in force here yet", slog.String("error", err.Error()))
	}
	return setting, nil
}

// Record counts a request; it is called only while a canary is set.
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
	o.seen[t.Revision] = o.seen[t.Revision].plus(add)
}

// Arms is what has come of a canary on all replicas, as far as they have told.
func (o *Overrides) Arms(ctx context.Context, revision int) (Arms, error) {
	stored, err := o.store.Arms(ctx, revision)
	if err != nil {
		return Arms{}, fmt.Errorf("canary arms: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return stored.plus(o.seen[revision]), nil
}

const (
	tellEvery = time.Second
	tellTime  = 2 * time.Second
	// maxSeen bounds the canaries that are counted while the store is away.
	maxSeen = 16
)

// Run stores what was counted, until ctx ends. It is a part of the service's
// lifecycle.
func (o *Overrides) Run(ctx context.Context) error {
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return o.Close(context.WithoutCancel(ctx))
		case <-ticker.C:
			_ = o.tell(ctx) // Kept, and told the next time.
		}
	}
}

// Close tells the rest. What can't be told is lost: it is a statistic.
func (o *Overrides) Close(ctx context.Context) error {
	if err := o.tell(ctx); err != nil {
		o.log.WarnContext(ctx, "the last counts of the canary are not stored", slog.String("error", err.Error()))
	}
	return nil
}

func (o *Overrides) tell(ctx context.Context) error {
	o.mu.Lock()
	seen := o.seen
	if len(seen) == 0 {
		o.mu.Unlock()
		return nil
	}
	o.seen = make(map[int]Arms)
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	var errs []error
	for revision, arms := range seen {
		if err := o.store.AddArms(ctx, revision, arms); err != nil {
			errs = append(errs, err)
			o.giveBack(revision, arms)
		}
	}
	return errors.Join(errs...)
}

func (o *Overrides) giveBack(revision int, arms Arms) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.seen[revision]; known || len(o.seen) < maxSeen {
		o.seen[revision] = o.seen[revision].plus(arms)
	}
}
