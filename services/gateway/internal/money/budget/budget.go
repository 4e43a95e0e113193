// Package budget sets the worst case of a call aside before it is made, under the
// limits of its run and its organization together, so that calls side by side
// can't overrun a ceiling. The store is the ledger's own: a ledger row takes the
// place of its reservation in one transaction. Package admission reserves,
// internal/postgres keeps the reservations.
package budget

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/apierr"
)

// ReasonExceeded is of a call that the organization's ceiling does not cover.
const ReasonExceeded apierr.Reason = "budget_exceeded"

// The refusals that are not a run's.
var (
	// ErrExceeded refuses what the ceiling does not cover.
	ErrExceeded = denied(ReasonExceeded,
		"what is left of the organization's budget, beside its calls in flight, does not cover the worst case of this call")
	// ErrOutgrown ends an answer that grew beyond what was set aside for it.
	ErrOutgrown = denied(ReasonExceeded,
		"the answer grew beyond what the budget set aside for it; name max_tokens")
	// ErrUnpriced refuses models whose cost is unknown.
	ErrUnpriced = denied("model_not_allowed",
		"model: has no price, and the run or the organization has a ceiling")
	// ErrLapsed ends a call whose reservation was given to others: its replica could
	// not be heard, and came back too late.
	ErrLapsed = denied(ReasonExceeded,
		"the gateway was cut off from its store, and what was set aside for this call has gone to others")
	// errAway refuses what can't be counted: a ceiling is not overrun because a
	// store is away.
	errAway = apierr.Unavailable("the budget can't be asked at the moment; nothing was sent to a provider", nil)
)

// Call is what is set aside for one.
type Call struct {
	// ID that the call's ledger row will have.
	ID                uuid.UUID
	Organization, Run string
	Worst             price.Pico
}

// Session is a run of an organization; an empty Run stands for the calls without one.
type Session struct{ Organization, Run string }

// Store keeps reservations, by the replica that holds them. A reservation counts
// until its ledger row is there, it is released, or its replica is forgotten. Then
// it lapses: a ledger row that comes all the same is marked where it overruns a limit.
type Store interface {
	// Reserve sets a call's worst case aside; an *apierr.Error refuses it.
	Reserve(ctx context.Context, replica uuid.UUID, c Call) error
	// Release gives back the reservations of calls without a ledger row.
	Release(ctx context.Context, replica uuid.UUID, calls []uuid.UUID) error
	// Beat says that a replica lives, and its sessions in flight where they changed.
	// It reports whether the replica was unknown: new, or forgotten.
	Beat(ctx context.Context, replica uuid.UUID, sessions map[Session]int, changed bool) (unknown bool, err error)
	// Reclaim sets aside again what lapsed of a replica, and gives the calls that the
	// limits don't cover any more.
	Reclaim(ctx context.Context, replica uuid.UUID) (lost []uuid.UUID, err error)
	// EndRuns writes down which runs have come to their time or have used up a limit.
	EndRuns(ctx context.Context) error
	// Forget takes off replicas that were silent for so long, but for itself.
	Forget(ctx context.Context, replica uuid.UUID, silent time.Duration) error
	// Leave takes a replica off that stops.
	Leave(ctx context.Context, replica uuid.UUID) error
}

const (
	// beatEvery is how often a replica says that it lives.
	beatEvery = time.Second
	// silence is after how long a replica is taken for dead: its reservations lapse.
	silence = 10 * time.Second
	// storeTime bounds one exchange with the store.
	storeTime = 2 * time.Second
)

// Keeper holds this replica's reservations.
type Keeper struct {
	store   Store
	replica uuid.UUID
	log     *slog.Logger
	// forgotten: others have taken this replica off, and it has not reclaimed yet.
	forgotten bool

	mu sync.Mutex
	// owed are reservations to give back: the store could not be asked.
	owed []uuid.UUID
}

// Calls are those in flight here.
type Calls interface {
	// Sessions counts them by run, of at most a few thousand runs.
	Sessions() map[Session]int
	// EndCall ends one that holds a reservation; it may be over.
	EndCall(id uuid.UUID, cause error)
}

// NewKeeper returns the keeper of a replica.
func NewKeeper(store Store, log *slog.Logger) *Keeper {
	return &Keeper{store: store, replica: uuid.New(), log: log}
}

// Replica is the name that the store knows this one by.
func (k *Keeper) Replica() uuid.UUID { return k.replica }

// Start makes this replica known, before the first call.
func (k *Keeper) Start(ctx context.Context) error {
	_, err := k.store.Beat(ctx, k.replica, nil, false)
	return err
}

// Reserve sets a call's worst case aside; an *apierr.Error refuses the call.
func (k *Keeper) Reserve(ctx context.Context, c Call) error {
	bounded, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	err := k.store.Reserve(bounded, k.replica, c)
	if err == nil || apierr.From(err).Kind == apierr.KindForbidden {
		return err
	}
	k.Release(ctx, c.ID) // It may have come through.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errAway.Wrap(err)
}

// Release gives back what was set aside for a call that left no ledger row. What
// can't be given back now is given back later.
func (k *Keeper) Release(ctx context.Context, call uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	if err := k.store.Release(ctx, k.replica, []uuid.UUID{call}); err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.owed = append(k.owed, call)
	}
}

// Run keeps the reservations of this replica's calls alive and takes off those of
// dead replicas, until ctx ends. It is a part of the service's lifecycle.
func (k *Keeper) Run(ctx context.Context, calls Calls) error {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	var said map[Session]int
	var since time.Time // The store was there at each beat since then.
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := calls.Sessions()
		err := k.beat(ctx, calls, now, !maps.Equal(said, now))
		if err == nil && !since.IsZero() && time.Since(since) >= silence {
			err = k.sweep(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !since.IsZero():
			k.log.WarnContext(ctx, "the budget's store is away; calls under a limit are refused", "error", err.Error())
			since = time.Time{}
		case err == nil && since.IsZero():
			since = time.Now()
		}
		if err == nil {
			said = now
		}
	}
}

// beat does what is due each time.
func (k *Keeper) beat(ctx context.Context, calls Calls, sessions map[Session]int, changed bool) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	unknown, err := k.store.Beat(ctx, k.replica, sessions, changed)
	k.forgotten = k.forgotten || unknown
	if err == nil && k.forgotten {
		err = k.reclaim(ctx, calls)
	}
	if err != nil {
		return err
	}
	return errors.Join(k.repay(ctx), k.store.EndRuns(ctx))
}

// sweep removes dead replicas. Only a replica that has seen the store for as long as
// others may be silent does so: right after an outage all replicas count as alive.
func (k *Keeper) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return k.store.Forget(ctx, k.replica, silence)
}

// reclaim sets aside again what lapsed while this replica could not be heard, and
// ends the calls whose place others have taken.
func (k *Keeper) reclaim(ctx context.Context, calls Calls) error {
	lost, err := k.store.Reclaim(ctx, k.replica)
	if err != nil {
		return err
	}
	k.forgotten = false
	for _, call := range lost {
		calls.EndCall(call, ErrLapsed)
	}
	k.log.WarnContext(ctx, "this replica was taken for dead; calls whose budget went to others are ended", "calls", len(lost))
	return nil
}

// repay gives back what is owed.
func (k *Keeper) repay(ctx context.Context) error {
	k.mu.Lock()
	owed := k.owed
	k.owed = nil
	k.mu.Unlock()
	if len(owed) == 0 {
		return nil
	}
	err := k.store.Release(ctx, k.replica, owed)
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.owed = append(k.owed, owed...)
	}
	return err
}

// Close takes this replica off. Where the store is away the others forget it in
// time, as they forget one that was killed: no reason to call the stop a failure.
func (k *Keeper) Close(ctx context.Context) error {
	_ = k.repay(ctx) // They go with the replica when it is forgotten.
	if err := k.store.Leave(ctx, k.replica); err != nil {
		k.log.WarnContext(ctx, "this replica could not take itself off", "error", err.Error())
	}
	return nil
}

// denied is a refusal by what was set, which no repetition changes.
func denied(reason apierr.Reason, text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: reason, Class: apierr.ClassPolicy, Text: text}
}
