package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// Mint creates the authority of a run and returns it with its stored times. One with a parent is minted below it, if no
// more than mostDepth runs are above it then; where more are, the parent ends.
func (r *Runs) Mint(ctx context.Context, of run.Run, mostDepth int) (minted run.Run, err error) {
	if of.Parent != "" { // What it has spent must be known.
		if err := awaitEntries(ctx, r.control.pool); err != nil {
			return run.Run{}, fmt.Errorf("mint run: %w", err)
		}
	}
	entry := audit.New(ctx, "run.mint", subject(of.Organization, of.ID), "")
	err = r.control.Change(ctx, control.Runs, &entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		if of.Parent != "" {
			if err := r.share(ctx, q, &of, mostDepth, version); err != nil {
				return err
			}
		}
		if entry.Details, err = mintDetails(&of); err != nil {
			return err
		}
		minted, err = r.insert(ctx, q, &of, version)
		return err
	})
	if errors.Is(err, run.ErrTooDeep) {
		err = errors.Join(err, r.exhaust(ctx, of.Organization, of.Parent, run.EndMaxDepth))
	}
	if err != nil {
		return run.Run{}, fmt.Errorf("mint run: %w", err)
	}
	return minted, nil
}

// share takes the limits of a new run out of its parent's. The parent's lock holds back its calls, and those who mint too.
func (r *Runs) share(ctx context.Context, q *dbsql.Queries, of *run.Run, mostDepth int, version int64) error {
	parent, _, err := lockRun(ctx, q, of.Organization, of.Parent)
	if err != nil {
		return err
	}
	usage, err := r.usage(ctx, q, of.Organization, of.Parent)
	if err != nil {
		return err
	}
	minted, err := q.CountSubRuns(ctx, dbsql.CountSubRunsParams{OrganizationID: of.Organization, RunID: of.Parent})
	if err != nil {
		return err
	}
	child, kept, err := of.Below(&parent, usage, int(minted), mostDepth, time.Now())
	if err != nil {
		return err
	}
	*of = child
	limits := amounts(kept)
	return q.ShareRun(ctx, dbsql.ShareRunParams{
		OrganizationID: of.Organization, RunID: of.Parent, Version: version,
		MaxCostCents: limits.cost, MaxCalls: limits.calls, MaxToolCalls: limits.toolCalls,
	})
}

// exhaust ends a run by a limit.
func (r *Runs) exhaust(ctx context.Context, organization, id string, reason run.EndReason) error {
	return r.control.Follow(ctx, control.Runs, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		if err := q.ExhaustRun(ctx, dbsql.ExhaustRunParams{OrganizationID: organization, RunID: id, Reason: string(reason)}); err != nil {
			return err
		}
		return q.MoveRun(ctx, dbsql.MoveRunParams{OrganizationID: organization, RunID: id, Version: version})
	})
}

func mintDetails(of *run.Run) (json.RawMessage, error) {
	limits := of.Limits
	details := map[string]any{
		"initiated_by": of.InitiatedBy, "max_cost_cents": limits.MaxCostCents, "max_calls": limits.MaxCalls,
		"models": limits.Models, "allowed_tools": limits.AllowedTools, "max_tool_calls": limits.MaxToolCalls, "expires_at": limits.ExpiresAt, "approval_ref": of.ApprovalRef,
	}
	if of.Parent != "" {
		details["parent_run_id"] = of.Parent
	}
	return json.Marshal(details)
}

// storedAmounts are the limits of amounts as they are stored: null for none.
type storedAmounts struct {
	cost             pgtype.Float8
	calls, toolCalls pgtype.Int4
}

func amounts(l run.Limits) storedAmounts {
	return storedAmounts{
		cost:      pgtype.Float8{Float64: l.MaxCostCents, Valid: l.MaxCostCents > 0},
		calls:     pgtype.Int4{Int32: int32(l.MaxCalls), Valid: l.MaxCalls > 0},
		toolCalls: pgtype.Int4{Int32: int32(l.MaxToolCalls), Valid: l.MaxToolCalls > 0},
	}
}

// insert stores a new run.
func (r *Runs) insert(ctx context.Context, q *dbsql.Queries, of *run.Run, version int64) (run.Run, error) {
	metadata := []byte("{}")
	if of.Metadata != nil {
		var err error
		if metadata, err = json.Marshal(of.Metadata); err != nil {
			return run.Run{}, err
		}
	}
	limits := amounts(of.Limits)
	row, err := q.MintRun(ctx, dbsql.MintRunParams{
		OrganizationID: of.Organization, RunID: of.ID, ParentRunID: of.Parent, Depth: int32(of.Depth), InitiatedBy: of.InitiatedBy,
		MaxCostCents: limits.cost, MaxCalls: limits.calls, MaxToolCalls: limits.toolCalls,
		Models: append([]string{}, of.Limits.Models...), AllowedTools: append([]string{}, of.Limits.AllowedTools...),
		ExpiresAt: optionalTime(of.Limits.ExpiresAt), ApprovalRef: of.ApprovalRef, Metadata: metadata, Version: version,
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return run.Run{}, r.taken(ctx, q, *of)
	case err != nil:
		return run.Run{}, err
	}
	return toRun(&row.Run)
}

// taken returns why a run can't be minted.
func (r *Runs) taken(ctx context.Context, q *dbsql.Queries, of run.Run) error {
	there, _, err := lockRun(ctx, q, of.Organization, of.ID)
	switch {
	case err != nil:
		return err
	case there.Status == run.Unminted:
		return run.ErrMintAborted
	}
	return run.ErrMinted
}
