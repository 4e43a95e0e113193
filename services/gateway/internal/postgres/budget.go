package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/pgdb"
)

// Reservations implements budget.Store.
type Reservations struct{ pool *pgxpool.Pool }

// NewReservations returns the reservations of a database.
func NewReservations(pool *pgxpool.Pool) *Reservations { return &Reservations{pool} }

// refusals are the refusals of the functions budget_reserve and tool_reserve.
var refusals = map[string]*apierr.Error{
	"organization_suspended": organization.ErrSuspended,
	"run_revoked":            run.ErrRevoked,
	"run_aborted":            run.ErrAborted,
	"run_expired":            run.ErrExpired,
	"run_exhausted":          run.ErrExhausted,
	"run_cost":               run.ErrCostLeft,
	"run_calls":              run.ErrCallsLeft,
	"budget_exceeded":        budget.ErrExceeded,
	"key_budget_exceeded":    budget.ErrKeyExceeded,
	"max_tool_calls":         run.ErrToolsExhausted,
	"tool_calls":             run.ErrToolCallsLeft,
	"tool_loop":              run.ErrToolLoop,
	"tool_repeats":           run.ErrToolRepeatLeft,
}

// passing are the refusals that the entries of calls that have been answered may end.
var passing = []*apierr.Error{run.ErrCostLeft, run.ErrCallsLeft, budget.ErrExceeded, budget.ErrKeyExceeded}

// Reserve implements budget.Store, in one round trip unless a limit seems to be reached: calls that have been answered
// may hold their worst case until their entries are stored, so it waits for these and tries again.
func (r *Reservations) Reserve(ctx context.Context, replica uuid.UUID, c budget.Call) error {
	err := r.reserve(ctx, replica, c)
	if !slices.ContainsFunc(passing, func(refusal *apierr.Error) bool { return errors.Is(err, refusal) }) {
		return err
	}
	if err := awaitEntries(ctx, r.pool); err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	return withRoom(ctx, r.pool, &c, r.reserve(ctx, replica, c))
}

// withRoom returns the refusal of a cost ceiling as a *budget.ShortError, which says what the ceilings leave. It
// returns any other error unchanged.
func withRoom(ctx context.Context, pool *pgxpool.Pool, c *budget.Call, err error) error {
	refusal, ok := errors.AsType[*apierr.Error](err)
	if !ok || refusal == run.ErrCallsLeft || !slices.Contains(passing, refusal) {
		return err
	}
	room, failed := dbsql.New(pool).BudgetRoom(ctx, dbsql.BudgetRoomParams{
		OrganizationID: c.Organization, RunID: c.Run,
		KeyOrigin: c.KeyOrigin, KeyCeilingCents: c.KeyBudget.CeilingCents, KeyPeriod: string(c.KeyBudget.Period),
	})
	if failed != nil {
		return err // The refusal holds without knowing what is left.
	}
	return &budget.ShortError{Refusal: refusal, Room: price.Pico(room)}
}

func (r *Reservations) reserve(ctx context.Context, replica uuid.UUID, c budget.Call) error {
	if c.Tool != nil {
		return refused(dbsql.New(r.pool).ReserveTool(ctx, dbsql.ReserveToolParams{
			Call: c.ID, Replica: replica, OrganizationID: c.Organization, RunID: c.Run, Amount: int64(c.Worst),
			KeyOrigin: c.KeyOrigin, KeyCeilingCents: c.KeyBudget.CeilingCents, KeyPeriod: string(c.KeyBudget.Period),
			CallDigest: c.Tool.Digest[:], MaxToolCalls: int32(c.Tool.MaxCalls), RepeatLimit: int32(c.Tool.Repeats),
		}))
	}
	return reserveCalls(ctx, dbsql.New(r.pool), replica, &c, 1)
}

// reserveCalls reserves the worst case of a call, or of a batch job that counts as so many calls. An *apierr.Error
// refuses it.
func reserveCalls(ctx context.Context, q *dbsql.Queries, replica uuid.UUID, c *budget.Call, calls int) error {
	refusal, err := q.Reserve(ctx, dbsql.ReserveParams{
		Call: c.ID, Replica: replica, OrganizationID: c.Organization, RunID: c.Run, Amount: int64(c.Worst), Calls: int32(calls),
		KeyOrigin: c.KeyOrigin, KeyCeilingCents: c.KeyBudget.CeilingCents, KeyPeriod: string(c.KeyBudget.Period),
	})
	return refused(refusal, err)
}

// refused returns the result of a reservation as an error.
func refused(refusal string, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("reserve: %w", err)
	case refusal == "":
		return nil
	}
	if known := refusals[refusal]; known != nil {
		return known
	}
	return fmt.Errorf("reserve: no such refusal: %s", refusal)
}

// Release implements budget.Store.
func (r *Reservations) Release(ctx context.Context, replica uuid.UUID, calls []uuid.UUID) error {
	if err := dbsql.New(r.pool).ReleaseReservations(ctx, dbsql.ReleaseReservationsParams{Replica: replica, Ids: calls}); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// Heartbeat implements budget.Store.
func (r *Reservations) Heartbeat(ctx context.Context, replica uuid.UUID, sessions map[budget.Session]int, changed bool) (unknown bool, err error) {
	q := dbsql.New(r.pool)
	seen, err := q.SeeReplica(ctx, replica)
	if unknown = err == nil && seen == 0; unknown {
		err, changed = q.AddReplica(ctx, replica), true
	}
	if err != nil {
		return unknown, fmt.Errorf("heartbeat: %w", err)
	}
	if !changed {
		return false, nil
	}
	return unknown, r.replaceSessions(ctx, replica, sessions)
}

// replaceSessions replaces the recorded sessions in flight of a replica.
func (r *Reservations) replaceSessions(ctx context.Context, replica uuid.UUID, sessions map[budget.Session]int) error {
	params := dbsql.AddSessionsParams{Replica: replica}
	for s, calls := range sessions {
		params.OrganizationIds = append(params.OrganizationIds, s.Organization)
		params.RunIds = append(params.RunIds, s.Run)
		params.Calls = append(params.Calls, int32(calls))
	}
	err := pgdb.InTx(ctx, r.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if err := q.ClearSessions(ctx, replica); err != nil {
			return err
		}
		return q.AddSessions(ctx, params)
	})
	if err != nil {
		return fmt.Errorf("sessions in flight: %w", err)
	}
	return nil
}

// Reclaim implements budget.Store.
func (r *Reservations) Reclaim(ctx context.Context, replica uuid.UUID) (lost []uuid.UUID, err error) {
	if lost, err = dbsql.New(r.pool).Reclaim(ctx, replica); err != nil {
		return nil, fmt.Errorf("reclaim: %w", err)
	}
	return lost, nil
}

// EndRuns records, with an audit entry, the end of runs that have expired or are exhausted.
func (r *Reservations) EndRuns(ctx context.Context) error {
	q := dbsql.New(r.pool)
	if _, err := q.EndExpiredRuns(ctx); err != nil {
		return fmt.Errorf("end expired runs: %w", err)
	}
	if _, err := q.EndExhaustedRuns(ctx, time.Now().Add(-run.ActiveFor)); err != nil {
		return fmt.Errorf("end exhausted runs: %w", err)
	}
	return nil
}

// RemoveSilent implements budget.Store.
func (r *Reservations) RemoveSilent(ctx context.Context, replica uuid.UUID, silent time.Duration) error {
	q := dbsql.New(r.pool)
	if _, err := q.ForgetReplicas(ctx, dbsql.ForgetReplicasParams{Seconds: silent.Seconds(), Self: replica}); err != nil {
		return fmt.Errorf("forget replicas: %w", err)
	}
	if err := q.DropLapses(ctx); err != nil {
		return fmt.Errorf("forget lapsed reservations: %w", err)
	}
	if err := q.DropToolUse(ctx); err != nil {
		return fmt.Errorf("forget calls of tools: %w", err)
	}
	return nil
}

// Deregister implements budget.Store.
func (r *Reservations) Deregister(ctx context.Context, replica uuid.UUID) error {
	if err := dbsql.New(r.pool).RemoveReplica(ctx, replica); err != nil {
		return fmt.Errorf("deregister replica: %w", err)
	}
	return nil
}
