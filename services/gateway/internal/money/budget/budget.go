// Package budget reserves the worst-case cost of a call before it is made. A reservation counts against the limits of
// the run and of the organization together, so that concurrent calls can't overrun a ceiling. The store is the ledger's
// own: a ledger row replaces its reservation in one transaction. Package admission reserves; internal/postgres stores
// the reservations.
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

// ReasonExceeded is the reason of a refusal because the organization's ceiling does not cover the call.
const ReasonExceeded apierr.Reason = "budget_exceeded"

// Refusals that are not a run's.
var (
	// ErrExceeded refuses a call that the ceiling does not cover.
	ErrExceeded = denied(ReasonExceeded,
		"the organization's remaining budget, less its calls in flight, does not cover the worst case of this call")
	// ErrOutgrown ends an answer that became larger than its reservation.
	ErrOutgrown = denied(ReasonExceeded,
		"the answer became larger than its budget reservation; set max_tokens")
	// ErrUnpriced refuses models whose cost is unknown.
	ErrUnpriced = denied("model_not_allowed",
		"model: has no price, and the run or the organization has a ceiling")
	// ErrLapsed ends a call whose reservation was given to other calls: its replica lost contact with the store and
	// returned too late.
	ErrLapsed = denied(ReasonExceeded,
		"the gateway lost contact with its store, and the reservation of this call was given to other calls")
	// errUnavailable refuses a call that can't be counted: a ceiling must hold while the store is unavailable, too.
	errUnavailable = apierr.Unavailable("the budget's store is unavailable at the moment; nothing was sent to a provider", nil)
)

// Call is the reservation of one call.
type Call struct {
	// ID is the ID of the call's later ledger row.
	ID                uuid.UUID
	Organization, Run string
	Worst             price.Pico
}

// Session is a run of an organization; an empty Run stands for the calls without one.
type Session struct{ Organization, Run string }

// Store keeps reservations by the replica that holds them. A reservation counts until its ledger row is stored, it is
// released, or its replica is removed. In the last case it lapses: if a ledger row arrives later all the same, it is
// marked if it overruns a limit.
type Store interface {
	// Reserve reserves a call's worst case. An *apierr.Error refuses it.
	Reserve(ctx context.Context, replica uuid.UUID, c Call) error
	// Release releases the reservations of calls without a ledger row.
	Release(ctx context.Context, replica uuid.UUID, calls []uuid.UUID) error
	// Heartbeat records that a replica is alive, and its sessions in flight if they changed. It reports whether the
	// replica was unknown: new, or removed.
	Heartbeat(ctx context.Context, replica uuid.UUID, sessions map[Session]int, changed bool) (unknown bool, err error)
	// Reclaim restores the lapsed reservations of a replica, and returns the calls that the limits no longer cover.
	Reclaim(ctx context.Context, replica uuid.UUID) (lost []uuid.UUID, err error)
	// EndRuns records which runs have reached their end time or used up a limit.
	EndRuns(ctx context.Context) error
	// RemoveSilent removes replicas that sent no heartbeat for silent, except the given one.
	RemoveSilent(ctx context.Context, replica uuid.UUID, silent time.Duration) error
	// Deregister removes a replica that stops.
	Deregister(ctx context.Context, replica uuid.UUID) error
}

const (
	// heartbeatEvery is the time between a replica's heartbeats.
	heartbeatEvery = time.Second
	// silence is the time without a heartbeat after which a replica counts as dead and its reservations lapse.
	silence = 10 * time.Second
	// storeTime bounds one exchange with the store.
	storeTime = 2 * time.Second
)

// Keeper holds this replica's reservations.
type Keeper struct {
	store   Store
	replica uuid.UUID
	log     *slog.Logger
	// removed reports that other replicas have removed this one, and it has not reclaimed its reservations yet.
	removed bool

	mu sync.Mutex
	// unreleased are the reservations to release once the store is available again.
	unreleased []uuid.UUID
}

// Calls are the calls in flight on this replica.
type Calls interface {
	// Sessions returns the number of calls by run, for at most a few thousand runs.
	Sessions() map[Session]int
	// EndCall ends the call that holds a reservation, if it is still in flight.
	EndCall(id uuid.UUID, cause error)
}

// NewKeeper returns the keeper of a replica.
func NewKeeper(store Store, log *slog.Logger) *Keeper {
	return &Keeper{store: store, replica: uuid.New(), log: log}
}

// Replica returns the ID under which the store knows this replica.
func (k *Keeper) Replica() uuid.UUID { return k.replica }

// Start registers this replica. It must return before the first call.
func (k *Keeper) Start(ctx context.Context) error {
	_, err := k.store.Heartbeat(ctx, k.replica, nil, false)
	return err
}

// Reserve reserves a call's worst case. An *apierr.Error refuses the call.
func (k *Keeper) Reserve(ctx context.Context, c Call) error {
	bounded, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	err := k.store.Reserve(bounded, k.replica, c)
	if err == nil || apierr.From(err).Kind == apierr.KindForbidden {
		return err
	}
	k.Release(ctx, c.ID) // The reservation may have been stored.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errUnavailable.Wrap(err)
}

// Release releases the reservation of a call that left no ledger row. If the store is unavailable, it is released
// later.
func (k *Keeper) Release(ctx context.Context, call uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	if err := k.store.Release(ctx, k.replica, []uuid.UUID{call}); err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.unreleased = append(k.unreleased, call)
	}
}

// Run keeps the reservations of this replica's calls alive and removes those of dead replicas, until ctx ends. It is a
// part of the service's lifecycle.
func (k *Keeper) Run(ctx context.Context, calls Calls) error {
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	var reported map[Session]int
	var since time.Time // Every heartbeat since then has reached the store.
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := calls.Sessions()
		err := k.heartbeat(ctx, calls, now, !maps.Equal(reported, now))
		if err == nil && !since.IsZero() && time.Since(since) >= silence {
			err = k.sweep(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !since.IsZero():
			k.log.WarnContext(ctx, "the budget's store is unavailable; calls under a limit are refused", "error", err.Error())
			since = time.Time{}
		case err == nil && since.IsZero():
			since = time.Now()
		}
		if err == nil {
			reported = now
		}
	}
}

// heartbeat does the work of one tick.
func (k *Keeper) heartbeat(ctx context.Context, calls Calls, sessions map[Session]int, changed bool) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	unknown, err := k.store.Heartbeat(ctx, k.replica, sessions, changed)
	k.removed = k.removed || unknown
	if err == nil && k.removed {
		err = k.reclaim(ctx, calls)
	}
	if err != nil {
		return err
	}
	return errors.Join(k.releaseRest(ctx), k.store.EndRuns(ctx))
}

// sweep removes dead replicas. It runs only after this replica has reached the store for as long as others may be
// silent, so that after an outage all replicas have the time to report first.
func (k *Keeper) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return k.store.RemoveSilent(ctx, k.replica, silence)
}

// reclaim restores the reservations that lapsed while this replica had no contact with the store, and ends the calls
// whose place others have taken.
func (k *Keeper) reclaim(ctx context.Context, calls Calls) error {
	lost, err := k.store.Reclaim(ctx, k.replica)
	if err != nil {
		return err
	}
	k.removed = false
	for _, call := range lost {
		calls.EndCall(call, ErrLapsed)
	}
	k.log.WarnContext(ctx, "this replica was removed as dead; ended the calls whose reservations went to other replicas", "calls", len(lost))
	return nil
}

// releaseRest releases the reservations that could not be released before.
func (k *Keeper) releaseRest(ctx context.Context) error {
	k.mu.Lock()
	unreleased := k.unreleased
	k.unreleased = nil
	k.mu.Unlock()
	if len(unreleased) == 0 {
		return nil
	}
	err := k.store.Release(ctx, k.replica, unreleased)
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.unreleased = append(k.unreleased, unreleased...)
	}
	return err
}

// Close removes this replica from the store. If the store is unavailable, the other replicas remove it in time, as they do
// with one that was killed; that is not a failure of the stop.
func (k *Keeper) Close(ctx context.Context) error {
	_ = k.releaseRest(ctx) // Otherwise they lapse when the replica is removed.
	if err := k.store.Deregister(ctx, k.replica); err != nil {
		k.log.WarnContext(ctx, "this replica could not be removed from the budget's store", "error", err.Error())
	}
	return nil
}

// denied returns a refusal by a limit, which repeating the call does not change.
func denied(reason apierr.Reason, text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: reason, Class: apierr.ClassPolicy, Text: text}
}
