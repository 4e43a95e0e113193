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
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Deprecations implements catalog.DeprecationStore.
type Deprecations struct{ control *Control }

// NewDeprecations returns the deprecations of a database.
func NewDeprecations(c *Control) *Deprecations { return &Deprecations{c} }

// Deprecations implements catalog.DeprecationStore.
func (d *Deprecations) Deprecations(ctx context.Context) (all []catalog.Deprecation, level int64, err error) {
	rows, err := dbsql.New(d.control.pool).Deprecations(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("deprecations: %w", err)
	}
	for _, row := range rows {
		all = append(all, catalog.Deprecation{
			Target: provider.Target{Provider: row.Provider, Model: row.Model}, Successor: row.Successor, Reason: row.Reason,
			Cutoff: row.Cutoff.Time, At: row.DeprecatedAt, By: row.DeprecatedBy, UpdatedAt: row.UpdatedAt,
		})
		level = max(level, row.Version)
	}
	return all, level, nil
}

// Deprecate implements catalog.DeprecationStore.
func (d *Deprecations) Deprecate(ctx context.Context, set catalog.Deprecation) error {
	entry := audit.New(ctx, "model.deprecate", audit.Subject{Type: "model", ID: set.String()}, set.Reason)
	err := d.control.Change(ctx, control.Models, &entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		before, err := q.GetDeprecation(ctx, dbsql.GetDeprecationParams{Provider: set.Provider, Model: set.Model})
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		cutoff := pgtype.Date{Time: set.Cutoff, Valid: !set.Cutoff.IsZero()}
		if !cutoff.Valid {
			cutoff = before.Cutoff
		}
		if before.Successor == set.Successor && before.Reason == set.Reason && before.Cutoff == cutoff {
			return control.ErrUnchanged
		}
		if entry.Details, err = json.Marshal(map[string]string{
			"successor": set.Successor, "cutoff_date": dayText(cutoff), "successor_before": before.Successor, "cutoff_date_before": dayText(before.Cutoff),
		}); err != nil {
			return err
		}
		return q.PutDeprecation(ctx, dbsql.PutDeprecationParams{
			Provider: set.Provider, Model: set.Model, Successor: set.Successor, Reason: set.Reason, Cutoff: cutoff,
			DeprecatedAt: storedTime(set.At), DeprecatedBy: set.By, UpdatedAt: storedTime(set.UpdatedAt), Version: version,
		})
	})
	if err != nil {
		return fmt.Errorf("deprecate model: %w", err)
	}
	return nil
}

func dayText(d pgtype.Date) string {
	if !d.Valid {
		return ""
	}
	return d.Time.Format(time.DateOnly)
}
