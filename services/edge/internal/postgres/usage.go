package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
)

// Usage implements the stores of package meter.
type Usage struct{ pool *pgxpool.Pool }

// NewUsage returns the counters of the pool's database.
func NewUsage(pool *pgxpool.Pool) *Usage { return &Usage{pool: pool} }

// Cursor implements meter.Store.
func (u *Usage) Cursor(ctx context.Context, service string) (string, error) {
	cursor, err := dbsql.New(u.pool).UsageCursor(ctx, service)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return cursor, err
}

// Add implements meter.Store. It is one statement, hence one transaction and one round trip.
func (u *Usage) Add(ctx context.Context, service, from, to string, counts []meter.Count) (added bool, err error) {
	params := dbsql.AddUsageParams{Service: service, Cursor: from, Next: to, Most: maxGroups, OtherDigest: otherDigest}
	for _, c := range counters(counts) {
		params.Organizations = append(params.Organizations, c.Organization)
		params.Keys = append(params.Keys, c.Key)
		params.Metrics = append(params.Metrics, c.Metric)
		params.Minutes = append(params.Minutes, c.Minute)
		params.Counts = append(params.Counts, c.Count)
	}
	for _, g := range groups(counts) {
		params.GroupOrganizations = append(params.GroupOrganizations, g.organization)
		params.GroupHours = append(params.GroupHours, g.hour)
		params.GroupKeys = append(params.GroupKeys, g.key)
		params.GroupMetrics = append(params.GroupMetrics, g.metric)
		params.GroupDigests = append(params.GroupDigests, g.digest())
		params.GroupUsers = append(params.GroupUsers, g.user)
		params.GroupTags = append(params.GroupTags, []byte(g.tags))
		params.GroupCounts = append(params.GroupCounts, g.count)
	}
	return dbsql.New(u.pool).AddUsage(ctx, params)
}

// Sum implements meter.Ledger.
func (u *Usage) Sum(ctx context.Context, q meter.Query) ([]meter.Total, error) {
	switch {
	case q.Grouped():
		return u.sumByGroup(ctx, q)
	case q.Period != meter.Whole:
		return u.sumByPeriod(ctx, q)
	}
	rows, err := dbsql.New(u.pool).SumUsage(ctx, dbsql.SumUsageParams{
		OrganizationID: q.Organization, KeyID: q.Key, Metric: q.Metric, Since: q.From, Before: q.To,
		AfterOrganization: q.After.Organization, AfterKey: q.After.Key, AfterMetric: q.After.Metric,
		Page: int32(q.Limit),
	})
	if err != nil {
		return nil, err
	}
	totals := make([]meter.Total, len(rows))
	for i, row := range rows {
		totals[i] = meter.Total{Organization: row.OrganizationID, Key: row.KeyID, Metric: row.Metric, Count: row.Count}
	}
	return totals, nil
}

func (u *Usage) sumByPeriod(ctx context.Context, q meter.Query) ([]meter.Total, error) {
	rows, err := dbsql.New(u.pool).SumUsageByPeriod(ctx, dbsql.SumUsageByPeriodParams{
		Period: string(q.Period), OrganizationID: q.Organization, KeyID: q.Key, Metric: q.Metric, Since: q.From, Before: q.To,
		AfterOrganization: q.After.Organization, AfterKey: q.After.Key, AfterMetric: q.After.Metric, AfterStart: q.After.Start,
		Page: int32(q.Limit),
	})
	if err != nil {
		return nil, err
	}
	totals := make([]meter.Total, len(rows))
	for i, row := range rows {
		totals[i] = meter.Total{
			Organization: row.OrganizationID, Key: row.KeyID, Metric: row.Metric, Start: row.StartsAt.UTC(), Count: row.Count,
		}
	}
	return totals, nil
}

// Merge implements meter.Archive.
func (u *Usage) Merge(ctx context.Context, into meter.Period, before time.Time, limit int) (int, error) {
	q := dbsql.New(u.pool)
	if into == meter.Day {
		row, err := q.MergeIntoDays(ctx, dbsql.MergeIntoDaysParams{Before: before, Page: int32(limit)})
		return int(row.Rows), err
	}
	row, err := q.MergeIntoHours(ctx, dbsql.MergeIntoHoursParams{Before: before, Page: int32(limit)})
	return int(row.Rows), err
}

// Drop implements meter.Archive.
func (u *Usage) Drop(ctx context.Context, before time.Time, limit int) (int, error) {
	n, err := dbsql.New(u.pool).DropUsage(ctx, dbsql.DropUsageParams{Before: before, Page: int32(limit)})
	return int(n), err
}
