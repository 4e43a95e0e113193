package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/spend"
	"switchyard.dev/services/platform/pgdb"
)

// Spend implements spend.Store.
type Spend struct{ pool *pgxpool.Pool }

// NewSpend returns the feeds and windows of the pool's database.
func NewSpend(pool *pgxpool.Pool) *Spend { return &Spend{pool: pool} }

// Due implements spend.Store.
func (s *Spend) Due(ctx context.Context, now time.Time, limit int) ([]spend.Feed, error) {
	rows, err := dbsql.New(s.pool).DueFeeds(ctx, dbsql.DueFeedsParams{Now: now, Page: int32(limit)})
	if err != nil {
		return nil, err
	}
	feeds := make([]spend.Feed, len(rows))
	for i, row := range rows {
		feeds[i] = spend.Feed{Organization: row.OrganizationID, Since: row.Since.UTC(), Cursor: row.Cursor}
	}
	return feeds, nil
}

// Origins implements spend.Store.
func (s *Spend) Origins(ctx context.Context, keys []string) (map[string]string, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	rows, err := dbsql.New(s.pool).KeyOrigins(ctx, keys)
	if err != nil {
		return nil, err
	}
	origins := make(map[string]string, len(rows))
	for _, row := range rows {
		origins[row.ID] = value(row.Origin)
	}
	return origins, nil
}

// Advance implements spend.Store.
func (s *Spend) Advance(ctx context.Context, steps []spend.Step, now time.Time) error {
	forward := dbsql.AdvanceFeedsParams{ReadAt: now}
	for i := range steps {
		forward.Organizations = append(forward.Organizations, steps[i].Feed.Organization)
		forward.Cursors = append(forward.Cursors, steps[i].Feed.Cursor)
		forward.Nexts = append(forward.Nexts, steps[i].Next)
		forward.Spent = append(forward.Spent, len(steps[i].Amounts) > 0)
	}
	return pgdb.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		moved, err := q.AdvanceFeeds(ctx, forward)
		if err != nil {
			return fmt.Errorf("advance feeds: %w", err)
		}
		spent := slices.Clone(steps)
		spent = slices.DeleteFunc(spent, func(s spend.Step) bool {
			return len(s.Amounts) == 0 || !slices.Contains(moved, s.Feed.Organization)
		})
		if len(spent) == 0 {
			return nil
		}
		slices.SortFunc(spent, func(a, b spend.Step) int { return strings.Compare(a.Feed.Organization, b.Feed.Organization) })
		return addSpend(ctx, q, spent, now)
	})
}

// addSpend adds steps in the order of their organizations, in which all replicas lock rows.
func addSpend(ctx context.Context, q *dbsql.Queries, steps []spend.Step, now time.Time) error {
	var params dbsql.AddSpendParams
	var organizations []string
	for i := range steps {
		organization := steps[i].Feed.Organization
		organizations = append(organizations, organization)
		for _, a := range steps[i].Amounts {
			params.Organizations = append(params.Organizations, organization)
			params.Keys = append(params.Keys, a.Key)
			params.Periods = append(params.Periods, string(a.Period))
			params.Starts = append(params.Starts, a.Start)
			params.Tokens = append(params.Tokens, a.Tokens)
			params.Picos = append(params.Picos, a.Pico)
		}
	}
	if err := q.AddSpend(ctx, params); err != nil {
		return fmt.Errorf("add to windows: %w", err)
	}
	granted, err := q.Granted(ctx, organizations)
	if err != nil {
		return fmt.Errorf("find credits: %w", err)
	}
	for i := range steps {
		if !slices.Contains(granted, steps[i].Feed.Organization) {
			continue
		}
		if err := draw(ctx, q, steps[i].Feed.Organization, steps[i].Costs, now); err != nil {
			return fmt.Errorf("draw credits of %s: %w", steps[i].Feed.Organization, err)
		}
	}
	return nil
}

// Drop implements spend.Store.
func (s *Spend) Drop(ctx context.Context, minutes, days time.Time, limit int) (int, error) {
	n, err := dbsql.New(s.pool).DropSpend(ctx, dbsql.DropSpendParams{MinutesBefore: minutes, DaysBefore: days, Page: int32(limit)})
	return int(n), err
}

// Spent implements quota.Durable.
func (u *Usage) Spent(ctx context.Context, windows []quota.Window) ([]int64, error) {
	if len(windows) == 0 {
		return nil, nil
	}
	now := time.Now().UTC()
	month, _ := plan.Month.Window(now)
	follow := dbsql.FollowSpendParams{Since: month, CalledAt: now}
	for _, w := range windows {
		follow.Organizations = append(follow.Organizations, w.Organization)
	}
	q := dbsql.New(u.pool)
	if err := q.FollowSpend(ctx, follow); err != nil {
		return nil, err
	}
	return spentIn(ctx, q, windows, now)
}

// spentIn returns what was spent in each window, see quota.Durable.
func spentIn(ctx context.Context, q *dbsql.Queries, windows []quota.Window, now time.Time) ([]int64, error) {
	if len(windows) == 0 {
		return nil, nil
	}
	var params dbsql.SpentInWindowsParams
	for _, w := range windows {
		params.Organizations = append(params.Organizations, w.Organization)
		params.Keys = append(params.Keys, w.Key)
		params.Periods = append(params.Periods, string(w.Period))
		params.Starts = append(params.Starts, w.Start)
	}
	rows, err := q.SpentInWindows(ctx, params)
	if err != nil {
		return nil, err
	}
	balances, err := creditBalances(ctx, q, params.Organizations, now)
	if err != nil {
		return nil, err
	}
	amounts := make([]int64, len(rows))
	for i, row := range rows {
		switch amounts[i] = row.PicoUsd; windows[i].Meter {
		case plan.Tokens:
			amounts[i] = row.Tokens
		case plan.Credits:
			amounts[i] = -balances[windows[i].Organization]
		case plan.Cents, plan.Calls, plan.Deliveries, plan.Notifications:
		}
	}
	return amounts, nil
}

// creditBalances returns what organizations have left.
func creditBalances(ctx context.Context, q *dbsql.Queries, organizations []string, now time.Time) (map[string]int64, error) {
	rows, err := q.CreditBalances(ctx, dbsql.CreditBalancesParams{Organizations: organizations, Now: now})
	if err != nil {
		return nil, err
	}
	balances := make(map[string]int64, len(rows))
	for _, row := range rows {
		balances[row.OrganizationID] = row.PicoUsd
	}
	return balances, nil
}
