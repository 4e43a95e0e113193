package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/threshold"
	"switchyard.dev/services/platform/pgdb"
)

var _ threshold.Store = (*Thresholds)(nil)

// Thresholds implements threshold.Store.
type Thresholds struct {
	pool  *pgxpool.Pool
	usage *Usage
}

// NewThresholds returns the store of the pool's database.
func NewThresholds(pool *pgxpool.Pool) *Thresholds { return &Thresholds{pool, NewUsage(pool)} }

// Alone implements threshold.Store. The transaction holds the mark's row alone: what do records is committed by itself.
func (t *Thresholds) Alone(ctx context.Context, do func(ctx context.Context, compared time.Time) (time.Time, error)) error {
	return pgdb.InTx(ctx, t.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		compared, err := q.LockQuotaMark(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock the mark of quotas: %w", err)
		}
		if err := q.AllowIdleRound(ctx); err != nil {
			return fmt.Errorf("allow for a round: %w", err)
		}
		until, err := do(ctx, compared.UTC())
		if err != nil {
			return err
		}
		return q.MoveQuotaMark(ctx, until)
	})
}

// Active implements threshold.Store.
func (t *Thresholds) Active(ctx context.Context, since time.Time, standard string, after threshold.Holder, limit int) ([]threshold.Holder, error) {
	rows, err := dbsql.New(t.pool).ActiveHolders(ctx, dbsql.ActiveHoldersParams{
		Since: since, Standard: standard, AfterOrganization: after.Organization, AfterKey: after.Key, AfterPlan: after.Plan, Page: int32(limit),
	})
	if err != nil {
		return nil, err
	}
	holders := make([]threshold.Holder, len(rows))
	for i, row := range rows {
		holders[i] = threshold.Holder{Organization: row.OrganizationID, Key: row.KeyID, Plan: row.Plan}
	}
	return holders, nil
}

// Used implements threshold.Store. It does not have more of the gateway's feed read.
func (t *Thresholds) Used(ctx context.Context, windows []quota.Window) ([]int64, error) {
	var counted, spent []quota.Window
	for _, w := range windows {
		if quota.Spends(w.Meter) {
			spent = append(spent, w)
		} else {
			counted = append(counted, w)
		}
	}
	counts, err := t.usage.Counted(ctx, counted)
	if err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	amounts, err := spentIn(ctx, dbsql.New(t.pool), spent, time.Now())
	if err != nil {
		return nil, fmt.Errorf("read spending: %w", err)
	}
	used := make([]int64, len(windows))
	for i, w := range windows {
		if quota.Spends(w.Meter) {
			used[i], amounts = amounts[0], amounts[1:]
		} else {
			used[i], counts = counts[0], counts[1:]
		}
	}
	return used, nil
}

// Exhausted implements threshold.Store.
func (t *Thresholds) Exhausted(ctx context.Context, since, now time.Time, standard, after string, limit int) ([]threshold.Exhausted, error) {
	q := dbsql.New(t.pool)
	rows, err := q.ExhaustedCredits(ctx, dbsql.ExhaustedCreditsParams{Since: since, Now: now, Standard: standard, After: after, Page: int32(limit)})
	if err != nil {
		return nil, err
	}
	found := make([]threshold.Exhausted, len(rows))
	for i, row := range rows {
		uncovered, err := q.UncoveredSpend(ctx, row.OrganizationID)
		if err != nil {
			return nil, fmt.Errorf("read uncovered spending: %w", err)
		}
		found[i] = threshold.Exhausted{Organization: row.OrganizationID, Plan: row.Plan, LastGrant: row.LastGrant, Uncovered: uncovered}
	}
	return found, nil
}

// Record implements threshold.Store.
func (t *Thresholds) Record(ctx context.Context, events []threshold.Event) error {
	var params dbsql.AddHouseEventsParams
	for _, e := range events {
		params.EventIds = append(params.EventIds, e.ID)
		params.Organizations = append(params.Organizations, e.Organization)
		params.Types = append(params.Types, e.Type)
		params.Subjects = append(params.Subjects, e.Subject)
		params.Data = append(params.Data, e.Data)
		params.Kept = append(params.Kept, e.Keep)
	}
	return dbsql.New(t.pool).AddHouseEvents(ctx, params)
}
