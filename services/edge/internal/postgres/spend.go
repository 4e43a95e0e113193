package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/credit"
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

// errMoved ends the transaction of a page that another replica has added.
var errMoved = errors.New("another replica has advanced the feed")

// Advance implements spend.Store.
func (s *Spend) Advance(ctx context.Context, feed spend.Feed, next string, now time.Time, amounts []spend.Amount, costs []credit.Cost) (bool, error) {
	params := dbsql.AddSpendParams{OrganizationID: feed.Organization}
	for _, a := range amounts {
		params.Keys = append(params.Keys, a.Key)
		params.Periods = append(params.Periods, string(a.Period))
		params.Starts = append(params.Starts, a.Start)
		params.Tokens = append(params.Tokens, a.Tokens)
		params.Picos = append(params.Picos, a.Pico)
	}
	err := pgdb.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		n, err := q.AdvanceFeed(ctx, dbsql.AdvanceFeedParams{OrganizationID: feed.Organization, Cursor: feed.Cursor, Next: next, ReadAt: now, Spent: len(amounts) > 0})
		switch {
		case err != nil:
			return err
		case n == 0:
			return errMoved
		case len(amounts) == 0:
			return nil
		}
		if err := q.AddSpend(ctx, params); err != nil {
			return err
		}
		return draw(ctx, q, feed.Organization, costs, now)
	})
	if errors.Is(err, errMoved) {
		return false, nil
	}
	return err == nil, err
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
