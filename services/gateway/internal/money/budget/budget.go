// Package budget reserves the worst-case cost of a call before it is made. A reservation counts against the limits of
// the run, of the API key and of the organization together, so that concurrent calls can't overrun a ceiling. The store is the ledger's
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

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/apierr"
)

// ReasonExceeded is the reason of a refusal because the ceiling of the organization or of the API key does not cover the
// call.
const ReasonExceeded apierr.Reason = "budget_exceeded"

// Refusals that are not a run's.
var (
	// ErrExceeded refuses a call that the organization's ceiling does not cover.
	ErrExceeded = denied(ReasonExceeded,
		"the organization's remaining budget, less its calls in flight, does not cover the worst case")
	// ErrKeyExceeded refuses a call that the ceiling of its API key does not cover.
	ErrKeyExceeded = denied(ReasonExceeded,
		"the API key's remaining budget, less its calls in flight, does not cover the worst case")
	// ErrOutgrown ends an answer that became larger than its reservation.
	ErrOutgrown = denied(ReasonExceeded,
		"the answer became larger than its budget reservation; limit its output, for example with max_tokens")
	// ErrUnpriced refuses models whose cost is unknown.
	ErrUnpriced = denied("model_not_allowed",
		"model: has no price, and the run, the API key or the organization has a ceiling")
	// ErrLapsed ends a call whose reservation was given to other calls: its replica lost contact with the store and
	// returned too late.
	ErrLapsed = denied(ReasonExceeded,
		"the gateway lost contact with its store, and the reservation of this call was given to other calls")
	// errUnavailable refuses a call that can't be counted: a ceiling must hold while the store is unavailable, too.
	errUnavailable = apierr.Unavailable("the budget's store is unavailable at the moment; nothing was sent to a provider", nil)
)

// ShortError refuses a call, or a batch job, whose worst case a ceiling does not cover, and says what the ceilings would
// cover now.
type ShortError struct {
	Refusal *apierr.Error
	// Room is the least that the ceilings of run, key and organization leave.
	Room price.Pico
}

// Error implements error.
func (s *ShortError) Error() string { return s.Refusal.Error() }

// Unwrap returns the refusal.
func (s *ShortError) Unwrap() error { return s.Refusal }

// Call is the reservation of one call.
type Call struct {
	// ID is the ID of the call's later ledger row.
	ID                uuid.UUID
	Organization, Run string
	// KeyOrigin is the key under which the call's product key counts, and KeyBudget its ceiling; zero for none.
	KeyOrigin string
	KeyBudget keyterm.Budget
	Worst     price.Pico
	// Tool is set for a call of a tool.
	Tool *Tool
}

// Tool is what a call of a tool counts as within its run. Limits of 0 are none.
type Tool struct {
	// Digest identifies the exact call: server, tool and canonical arguments.
	Digest [32]byte
	// MaxCalls is how many calls of tools the run may make where its authority says none, and Repeats how often it may make
	// the same call.
	MaxCalls, Repeats int
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

// Reserver holds this replica's reservations.
type Reserver struct {
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

// NewReserver returns the reserver of a replica.
func NewReserver(store Store, log *slog.Logger) *Reserver {
	return &Reserver{store: store, replica: uuid.New(), log: log}
}

// Replica returns the ID under which the store knows this replica.
func (r *Reserver) Replica() uuid.UUID { return r.replica }

// Start registers this replica. It must return before the first call.
func (r *Reserver) Start(ctx context.Context) error {
	_, err := r.store.Heartbeat(ctx, r.replica, nil, false)
	return err
}

// Reserve reserves a call's worst case. An *apierr.Error refuses the call.
func (r *Reserver) Reserve(ctx context.Context, c Call) error {
	bounded, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	err := r.store.Reserve(bounded, r.replica, c)
	if err == nil || apierr.From(err).Kind == apierr.KindForbidden {
		return err
	}
	r.Release(ctx, c.ID) // The reservation may have been stored.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errUnavailable.Wrap(err)
}

// Release releases the reservation of a call that left no ledger row. If the store is unavailable, it is released
// later.
func (r *Reserver) Release(ctx context.Context, call uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	if err := r.store.Release(ctx, r.replica, []uuid.UUID{call}); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unreleased = append(r.unreleased, call)
	}
}

// Run keeps the reservations of this replica's calls alive and removes those of dead replicas, until ctx ends. It is a
// part of the service's lifecycle.
func (r *Reserver) Run(ctx context.Context, calls Calls) error {
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
		err := r.heartbeat(ctx, calls, now, !maps.Equal(reported, now))
		if err == nil && !since.IsZero() && time.Since(since) >= silence {
			err = r.sweep(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !since.IsZero():
			r.log.WarnContext(ctx, "the budget's store is unavailable; calls under a limit are refused", "error", err.Error())
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
func (r *Reserver) heartbeat(ctx context.Context, calls Calls, sessions map[Session]int, changed bool) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	unknown, err := r.store.Heartbeat(ctx, r.replica, sessions, changed)
	r.removed = r.removed || unknown
	if err == nil && r.removed {
		err = r.reclaim(ctx, calls)
	}
	if err != nil {
		return err
	}
	return errors.Join(r.releaseRest(ctx), r.store.EndRuns(ctx))
}

// sweep removes dead replicas. It runs only after this replica has reached the store for as long as others may be
// silent, so that after an outage all replicas have the time to report first.
func (r *Reserver) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return r.store.RemoveSilent(ctx, r.replica, silence)
}

// reclaim restores the reservations that lapsed while this replica had no contact with the store, and ends the calls
// whose place others have taken.
func (r *Reserver) reclaim(ctx context.Context, calls Calls) error {
	lost, err := r.store.Reclaim(ctx, r.replica)
	if err != nil {
		return err
	}
	r.removed = false
	for _, call := range lost {
		calls.EndCall(call, ErrLapsed)
	}
	r.log.WarnContext(ctx, "this replica was removed as dead; ended the calls whose reservations went to other replicas", "calls", len(lost))
	return nil
}

// releaseRest releases the reservations that could not be released before.
func (r *Reserver) releaseRest(ctx context.Context) error {
	r.mu.Lock()
	unreleased := r.unreleased
	r.unreleased = nil
	r.mu.Unlock()
	if len(unreleased) == 0 {
		return nil
	}
	err := r.store.Release(ctx, r.replica, unreleased)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unreleased = append(r.unreleased, unreleased...)
	}
	return err
}

// Close removes this replica from the store. If the store is unavailable, the other replicas remove it in time, as they do
// with one that was killed; that is not a failure of the stop.
func (r *Reserver) Close(ctx context.Context) error {
	_ = r.releaseRest(ctx) // Otherwise they lapse when the replica is removed.
	if err := r.store.Deregister(ctx, r.replica); err != nil {
		r.log.WarnContext(ctx, "this replica could not be removed from the budget's store", "error", err.Error())
	}
	return nil
}

// denied returns a refusal by a limit, which repeating the call does not change.
func denied(reason apierr.Reason, text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: reason, Class: apierr.ClassPolicy, Text: text}
}
