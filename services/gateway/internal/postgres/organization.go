package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// Organizations stores what operators set for organizations.
type Organizations struct{ control *Control }

// NewOrganizations returns the organizations of a database.
func NewOrganizations(c *Control) *Organizations { return &Organizations{c} }

// Since returns what changed after a version, and the version that the result includes.
func (o *Organizations) Since(ctx context.Context, since int64) (changed []organization.Organization, level int64, err error) {
	rows, err := dbsql.New(o.control.pool).OrganizationsSince(ctx, since)
	if err != nil {
		return nil, 0, fmt.Errorf("organizations: %w", err)
	}
	level = since
	for _, row := range rows {
		changed = append(changed, toOrganization(row))
		level = max(level, row.Version)
	}
	return changed, level, nil
}

// Get returns an organization; if nothing was set for it, only the ID is set.
func (o *Organizations) Get(ctx context.Context, id string) (organization.Organization, error) {
	return getOrganization(ctx, dbsql.New(o.control.pool), id)
}

func getOrganization(ctx context.Context, q *dbsql.Queries, id string) (organization.Organization, error) {
	row, err := q.GetOrganization(ctx, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return organization.Organization{ID: id, Budget: organization.Budget{
			Period: organization.DefaultPeriod, Thresholds: organization.DefaultThresholds(),
		}}, nil
	case err != nil:
		return organization.Organization{}, fmt.Errorf("organization: %w", err)
	}
	return toOrganization(row), nil
}

func toOrganization(row dbsql.Organization) organization.Organization {
	return organization.Organization{
		ID: row.OrganizationID,
		Status: organization.Status{
			Suspended: row.Suspended, Reason: row.StatusReason, UpdatedAt: row.StatusChangedAt.Time,
			SuspendedAt: row.SuspendedAt.Time, SuspendedBy: row.SuspendedBy,
		},
		Budget: organization.Budget{
			CeilingCents: row.BudgetCeilingCents, Period: organization.Period(row.BudgetPeriod), Thresholds: toInts(row.BudgetThresholds),
		},
	}
}

func toInts(numbers []int32) []int {
	ints := make([]int, len(numbers))
	for i, n := range numbers {
		ints[i] = int(n)
	}
	return ints
}

// SetStatus suspends or restores an organization and returns its status after that.
func (o *Organizations) SetStatus(ctx context.Context, id string, c organization.Change) (status organization.Status, err error) {
	action := "org.unsuspend"
	if c.Suspended {
		action = "org.suspend"
	}
	c.At = storedTime(c.At)
	entry := audit.New(ctx, action, audit.Subject{Type: "organization", ID: id, Organization: id}, c.Reason)
	err = o.control.Change(ctx, control.Organizations, &entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		before, err := getOrganization(ctx, q, id)
		if err != nil {
			return err
		}
		var changed bool
		if status, changed = before.Status.Apply(c); !changed {
			return control.ErrUnchanged
		}
		return q.PutOrganizationStatus(ctx, dbsql.PutOrganizationStatusParams{
			OrganizationID: id, Suspended: status.Suspended, SuspendedAt: optionalTime(status.SuspendedAt), SuspendedBy: status.SuspendedBy,
			StatusReason: status.Reason, StatusChangedAt: optionalTime(status.UpdatedAt), Version: version,
		})
	})
	if err != nil {
		return organization.Status{}, fmt.Errorf("set status: %w", err)
	}
	return status, nil
}

// SetBudget sets a ceiling; an empty period leaves the period unchanged, and no thresholds the thresholds.
func (o *Organizations) SetBudget(ctx context.Context, id string, b organization.Budget, reason string) error {
	entry := audit.New(ctx, "org.budget", audit.Subject{Type: "organization", ID: id, Organization: id}, reason)
	err := o.control.Change(ctx, control.Organizations, &entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		before, err := getOrganization(ctx, q, id)
		if err != nil {
			return err
		}
		if b.Period == "" {
			b.Period = before.Budget.Period
		}
		if len(b.Thresholds) == 0 {
			b.Thresholds = before.Budget.Thresholds
		}
		if b.CeilingCents == before.Budget.CeilingCents && b.Period == before.Budget.Period && slices.Equal(b.Thresholds, before.Budget.Thresholds) {
			return control.ErrUnchanged
		}
		if entry.Details, err = json.Marshal(map[string]any{
			"budget_ceiling_cents": b.CeilingCents, "period": b.Period, "budget_ceiling_cents_before": before.Budget.CeilingCents,
			"period_before": before.Budget.Period, "thresholds": b.Thresholds,
		}); err != nil {
			return err
		}
		params := dbsql.PutOrganizationBudgetParams{
			OrganizationID: id, BudgetCeilingCents: b.CeilingCents, BudgetPeriod: string(b.Period), Version: version,
		}
		for _, percent := range b.Thresholds {
			params.BudgetThresholds = append(params.BudgetThresholds, int32(percent))
		}
		return q.PutOrganizationBudget(ctx, params)
	})
	if err != nil {
		return fmt.Errorf("set budget: %w", err)
	}
	return nil
}

// Spend returns what an organization has spent in the present period.
func (o *Organizations) Spend(ctx context.Context, id string, now time.Time) (organization.Spend, error) {
	if err := awaitEntries(ctx, o.control.pool); err != nil {
		return organization.Spend{}, fmt.Errorf("organization spend: %w", err)
	}
	of, err := o.Get(ctx, id)
	if err != nil {
		return organization.Spend{}, err
	}
	start, end := of.Budget.Period.Bounds(now)
	since := pgtype.Date{Time: start, Valid: true}
	if start.IsZero() {
		since = pgtype.Date{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	row, err := dbsql.New(o.control.pool).OrganizationSpend(ctx, dbsql.OrganizationSpendParams{
		OrganizationID: id, Since: since, ActiveSince: now.Add(-run.ActiveFor),
	})
	if err != nil {
		return organization.Spend{}, fmt.Errorf("organization spend: %w", err)
	}
	return organization.Spend{
		Organization: of, SpentCents: amount.Round(row.SpentCents), ReservedCents: amount.Round(row.ReservedCents),
		ActiveSessions: int(row.ActiveSessions), ActiveSessionsCents: amount.Round(row.ActiveCents), Start: start, End: end,
	}, nil
}
