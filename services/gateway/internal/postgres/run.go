package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// rememberEnded is how long after its end a run is still sent to replicas; an older one is looked up when a request
// names it.
const rememberEnded = 24 * time.Hour

// Runs stores the authorities of runs.
type Runs struct {
	control *Control
	replica uuid.UUID
}

// NewRuns returns the runs of a database, for a replica.
func NewRuns(c *Control, replica uuid.UUID) *Runs { return &Runs{c, replica} }

// Since returns the runs that changed after a version and may still matter, and the version that the result includes.
func (r *Runs) Since(ctx context.Context, since int64) (changed []run.Run, level int64, err error) {
	rows, err := dbsql.New(r.control.pool).RunsSince(ctx, dbsql.RunsSinceParams{Since: since, EndedAfter: time.Now().Add(-rememberEnded)})
	if err != nil {
		return nil, 0, fmt.Errorf("runs: %w", err)
	}
	level = since
	for i := range rows {
		of, err := toRun(&rows[i].Run)
		if err != nil {
			return nil, 0, err
		}
		changed = append(changed, of)
		level = max(level, rows[i].Run.Version)
	}
	return changed, level, nil
}

// Get returns a run; found is false if it was neither minted nor aborted.
func (r *Runs) Get(ctx context.Context, organization, id string) (of run.Run, found bool, err error) {
	return getRun(func() (dbsql.Run, error) {
		row, err := dbsql.New(r.control.pool).GetRun(ctx, dbsql.GetRunParams{OrganizationID: organization, RunID: id})
		return row.Run, err
	})
}

// List implements api.Runs.
func (r *Runs) List(ctx context.Context, f run.Filter, now time.Time) (found []run.Used, err error) {
	if err := awaitEntries(ctx, r.control.pool); err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	rows, err := dbsql.New(r.control.pool).ListRuns(ctx, dbsql.ListRunsParams{
		Self: r.replica, OrganizationID: f.Organization, Status: string(f.Status), Since: optionalTime(f.Since), Until: optionalTime(f.Until),
		ParentRunID: f.Parent, Before: optionalTime(f.BeforeCreated), BeforeRun: f.BeforeID, Now: now, Page: int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	for i := range rows {
		row := &rows[i]
		of, err := toRun(&row.Run)
		if err != nil {
			return nil, err
		}
		usage := usageOfRun(dbsql.RunSpendRow{
			SpentCents: row.SpentCents, Calls: row.Calls, FirstAt: row.FirstAt, LastAt: row.LastAt, ReservedCents: row.ReservedCents,
			Reservations: row.Reservations, ReservedFirstAt: row.ReservedFirstAt, ReservedLastAt: row.ReservedLastAt, Elsewhere: row.Elsewhere,
			ToolCalls: row.ToolCalls, ToolReservations: row.ToolReservations,
		})
		found = append(found, run.Used{Run: of.At(now, usage), Usage: usage})
	}
	return found, nil
}

func lockRun(ctx context.Context, q *dbsql.Queries, organization, id string) (of run.Run, found bool, err error) {
	return getRun(func() (dbsql.Run, error) {
		row, err := q.LockRun(ctx, dbsql.LockRunParams{OrganizationID: organization, RunID: id})
		return row.Run, err
	})
}

func getRun(read func() (dbsql.Run, error)) (of run.Run, found bool, err error) {
	row, err := read()
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return run.Run{}, false, nil
	case err != nil:
		return run.Run{}, false, fmt.Errorf("run: %w", err)
	}
	of, err = toRun(&row)
	return of, err == nil, err
}

func toRun(row *dbsql.Run) (run.Run, error) {
	of := run.Run{
		Organization: row.OrganizationID, ID: row.RunID, Parent: row.ParentRunID, Depth: int(row.Depth), Status: run.Status(row.Status.String),
		Limits: run.Limits{
			MaxCostCents: row.MaxCostCents.Float64, MaxCalls: int(row.MaxCalls.Int32), Models: row.Models, ExpiresAt: row.ExpiresAt.Time,
			AllowedTools: row.AllowedTools, MaxToolCalls: int(row.MaxToolCalls.Int32),
		},
		InitiatedBy: row.InitiatedBy, ApprovalRef: row.ApprovalRef,
		CreatedAt: row.CreatedAt.Time, ActivatedAt: row.ActivatedAt.Time, EndedAt: row.EndedAt.Time,
		RevokedBy: row.RevokedBy, RevokeReason: row.RevokeReason, EndReason: run.EndReason(row.EndReason),
		Abort: run.Abort{RequestedAt: row.AbortRequestedAt.Time, By: row.AbortRequestedBy, Reason: row.AbortReason},
	}
	if err := json.Unmarshal(row.Metadata, &of.Metadata); err != nil {
		return run.Run{}, fmt.Errorf("run: metadata: %w", err)
	}
	return of, nil
}

func subject(organization, id string) audit.Subject {
	return audit.Subject{Type: "run", ID: id, Organization: organization}
}

// Revoke ends an authority, and those below it.
func (r *Runs) Revoke(ctx context.Context, organization, id, by, reason string) (revoked run.Run, err error) {
	if err := awaitEntries(ctx, r.control.pool); err != nil {
		return run.Run{}, fmt.Errorf("revoke run: %w", err)
	}
	entry := audit.New(ctx, "run.revoke", subject(organization, id), reason)
	if entry.Details, err = json.Marshal(map[string]string{"revoked_by": by}); err != nil {
		return run.Run{}, fmt.Errorf("revoke run: %w", err)
	}
	err = r.control.Change(ctx, control.Runs, &entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		of, _, err := lockRun(ctx, q, organization, id)
		if err != nil {
			return err
		}
		usage, err := r.usage(ctx, q, organization, id)
		if err != nil {
			return err
		}
		var changed bool
		if revoked, changed, err = of.Revoked(storedTime(time.Now()), usage, by, reason); err != nil {
			return err
		}
		if !changed {
			return control.ErrUnchanged
		}
		if err := q.RevokeRun(ctx, dbsql.RevokeRunParams{
			OrganizationID: organization, RunID: id, Status: pgtype.Text{String: string(revoked.Status), Valid: true},
			EndedAt: optionalTime(revoked.EndedAt), RevokedBy: by, RevokeReason: reason, Version: version,
		}); err != nil {
			return err
		}
		return q.RevokeRunsBelow(ctx, dbsql.RevokeRunsBelowParams{
			OrganizationID: organization, RunID: id, EndedAt: optionalTime(revoked.EndedAt), RevokedBy: by, RevokeReason: reason, Version: version,
		})
	})
	if err != nil {
		return run.Run{}, fmt.Errorf("revoke run: %w", err)
	}
	return revoked, nil
}

// Abort marks a session as aborted, and those of the runs below it, and returns its run.
func (r *Runs) Abort(ctx context.Context, organization, id, by, reason string) (of run.Run, err error) {
	entry := audit.New(ctx, "session.abort", subject(organization, id), reason)
	err = r.control.Change(ctx, control.Runs, &entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		if of, _, err = lockRun(ctx, q, organization, id); err != nil {
			return err
		}
		if of.Abort.Requested() {
			return control.ErrUnchanged
		}
		of.Organization, of.ID = organization, id
		of.Abort = run.Abort{RequestedAt: storedTime(time.Now()), By: by, Reason: reason}
		if err := q.AbortRun(ctx, dbsql.AbortRunParams{
			OrganizationID: organization, RunID: id, AbortRequestedAt: optionalTime(of.Abort.RequestedAt), AbortRequestedBy: by,
			AbortReason: reason, Version: version,
		}); err != nil {
			return err
		}
		return q.AbortRunsBelow(ctx, dbsql.AbortRunsBelowParams{
			OrganizationID: organization, RunID: id, AbortRequestedAt: optionalTime(of.Abort.RequestedAt), AbortRequestedBy: by,
			AbortReason: reason, Version: version,
		})
	})
	if err != nil {
		return run.Run{}, fmt.Errorf("abort session: %w", err)
	}
	return of, nil
}

// OrganizationOf returns the organization of a run id if only one organization has it: minted, aborted, in flight, or
// in the ledger.
func (r *Runs) OrganizationOf(ctx context.Context, id string) (string, error) {
	if err := awaitEntries(ctx, r.control.pool); err != nil {
		return "", fmt.Errorf("organization of run: %w", err)
	}
	organizations, err := dbsql.New(r.control.pool).RunOrganizations(ctx, id)
	switch {
	case err != nil:
		return "", fmt.Errorf("organization of run: %w", err)
	case len(organizations) == 0:
		return "", run.ErrNotFound
	case len(organizations) > 1:
		return "", run.ErrAmbiguous
	}
	return organizations[0], nil
}

// Usage returns what a session has used. Its calls in flight are those with a reservation under a limit, or else those
// that other replicas reported.
func (r *Runs) Usage(ctx context.Context, organization, id string) (run.Usage, error) {
	if err := awaitEntries(ctx, r.control.pool); err != nil {
		return run.Usage{}, fmt.Errorf("run spend: %w", err)
	}
	return r.usage(ctx, dbsql.New(r.control.pool), organization, id)
}

func (r *Runs) usage(ctx context.Context, q *dbsql.Queries, organization, id string) (run.Usage, error) {
	row, err := q.RunSpend(ctx, dbsql.RunSpendParams{OrganizationID: organization, RunID: id, Self: r.replica})
	if err != nil {
		return run.Usage{}, fmt.Errorf("run spend: %w", err)
	}
	return usageOfRun(row), nil
}

func usageOfRun(row dbsql.RunSpendRow) run.Usage {
	u := run.Usage{
		SpentCents: amount.Round(row.SpentCents), ReservedCents: amount.Round(row.ReservedCents), Calls: row.Calls,
		InFlight: max(row.Reservations, row.Elsewhere), Elsewhere: row.Elsewhere, FirstCallAt: never(row.FirstAt), LastCallAt: never(row.LastAt),
		// A reservation may be released between the two counts.
		ToolCalls: max(row.ToolCalls-row.ToolReservations, 0), ToolsInFlight: row.ToolReservations,
	}
	if at := never(row.ReservedFirstAt); !at.IsZero() && (u.FirstCallAt.IsZero() || at.Before(u.FirstCallAt)) {
		u.FirstCallAt = at
	}
	if at := never(row.ReservedLastAt); at.After(u.LastCallAt) {
		u.LastCallAt = at
	}
	return u
}
