package postgres

import (
	"context"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
)

// Position implements apikey.Feed.
func (k *Keys) Position(ctx context.Context) (int64, error) { return dbsql.New(k.pool).Position(ctx) }

// ChangedSince implements apikey.Feed.
func (k *Keys) ChangedSince(ctx context.Context, position int64, limit int) ([]apikey.Digest, int64, error) {
	rows, err := dbsql.New(k.pool).ChangedSince(ctx, dbsql.ChangedSinceParams{Position: position, Page: int32(limit)})
	if err != nil {
		return nil, position, err
	}
	digests := make([]apikey.Digest, len(rows))
	for i, row := range rows {
		copy(digests[i][:], row.Digest)
		position = row.Position
	}
	return digests, position, nil
}

// Touch implements apikey.Feed.
func (k *Keys) Touch(ctx context.Context, uses map[string]time.Time) error {
	var params dbsql.TouchKeysParams
	for id, used := range uses {
		params.Ids = append(params.Ids, id)
		params.Used = append(params.Used, used)
	}
	return dbsql.New(k.pool).TouchKeys(ctx, params)
}

// key converts a row. The rows of all queries of whole keys have the same columns.
func key(row dbsql.KeyByDigestRow) apikey.Key {
	permissions := make([]apikey.Permission, len(row.Permissions))
	for i, p := range row.Permissions {
		permissions[i] = apikey.Permission(p)
	}
	return apikey.Key{
		ID: row.ID, Organization: row.OrganizationID, Product: row.Product, Permissions: permissions,
		Name: row.Name, Environment: row.Environment, CreatedAt: row.CreatedAt.UTC(),
		ExpiresAt: utc(row.ExpiresAt), RevokedAt: utc(row.RevokedAt), LastUsedAt: utc(row.LastUsedAt),
		Limit:             limitOf(row.LimitRequests, row.LimitWindowSeconds, row.LimitBurst),
		OrganizationLimit: limitOf(row.Requests, row.WindowSeconds, row.Burst),
		Terms: apikey.Terms{
			TokensPerMinute: value(row.TokensPerMinute), Models: row.Models, Class: apikey.Class(value(row.Class)),
			Budget: apikey.Budget{CeilingCents: value(row.BudgetCeilingCents), Period: apikey.Period(value(row.BudgetPeriod))},
		},
		Origin: value(row.Origin), ReplacedBy: value(row.ReplacedBy), Plan: value(row.Plan), OrganizationPlan: value(row.OrganizationPlan),
	}
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

// value returns the zero value for null.
func value[T any](column *T) (v T) {
	if column != nil {
		v = *column
	}
	return v
}

// null is the inverse of value.
func null[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// limitOf returns the limit of three columns, the zero Limit if they are null.
func limitOf(requests, window, burst *int32) limit.Limit {
	if requests == nil || window == nil || burst == nil {
		return limit.Limit{}
	}
	return limit.Limit{Requests: int(*requests), Window: time.Duration(*window) * time.Second, Burst: int(*burst)}
}

func limitColumns(l limit.Limit) (requests, window, burst *int32) {
	if l == (limit.Limit{}) {
		return nil, nil, nil
	}
	return new(int32(l.Requests)), new(int32(l.Window / time.Second)), new(int32(l.Burst))
}
