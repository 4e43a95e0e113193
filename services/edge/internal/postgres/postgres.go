// Package postgres keeps the edge's keys and billing counters. The app package
// hands its stores to apikey and meter.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

// Keys implements the stores of package apikey.
type Keys struct{ pool *pgxpool.Pool }

// NewKeys keeps keys in the pool's database.
func NewKeys(pool *pgxpool.Pool) *Keys { return &Keys{pool: pool} }

// inFeed runs fn in a transaction that has taken the next position of the feed.
func (k *Keys) inFeed(ctx context.Context, fn func(q *dbsql.Queries, position int64) error) error {
	return pgdb.InTx(ctx, k.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		position, err := q.NextPosition(ctx)
		if err != nil {
			return fmt.Errorf("take feed position: %w", err)
		}
		return fn(q, position)
	})
}

// Insert implements apikey.Store.
func (k *Keys) Insert(ctx context.Context, key apikey.Key, digest apikey.Digest) error {
	permissions := make([]string, len(key.Permissions))
	for i, p := range key.Permissions {
		permissions[i] = string(p)
	}
	return k.inFeed(ctx, func(q *dbsql.Queries, position int64) error {
		return q.InsertKey(ctx, dbsql.InsertKeyParams{
			ID: key.ID, Digest: digest[:], OrganizationID: key.Organization, Product: key.Product,
			Permissions: permissions, Name: key.Name, Environment: key.Environment,
			CreatedAt: key.CreatedAt, ExpiresAt: key.ExpiresAt, Position: position,
		})
	})
}

// List implements apikey.Store.
func (k *Keys) List(ctx context.Context, organization, after string, limit int) ([]apikey.Key, error) {
	rows, err := dbsql.New(k.pool).ListKeys(ctx, dbsql.ListKeysParams{
		OrganizationID: organization, After: after, Page: int32(limit),
	})
	if err != nil {
		return nil, err
	}
	keys := make([]apikey.Key, len(rows))
	for i, row := range rows {
		keys[i] = key(dbsql.KeyByDigestRow(row))
	}
	return keys, nil
}

// Revoke implements apikey.Store.
func (k *Keys) Revoke(ctx context.Context, id string, now time.Time) (digest apikey.Digest, found bool, err error) {
	err = k.inFeed(ctx, func(q *dbsql.Queries, position int64) error {
		raw, err := q.RevokeKey(ctx, dbsql.RevokeKeyParams{ID: id, Now: &now, Position: position})
		if err == nil {
			copy(digest[:], raw)
		}
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return digest, false, nil
	}
	return digest, err == nil, err
}

// KeyByDigest implements apikey.Loader.
func (k *Keys) KeyByDigest(ctx context.Context, digest apikey.Digest) (*apikey.Key, error) {
	row, err := dbsql.New(k.pool).KeyByDigest(ctx, digest[:])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil // apikey.Loader says so.
	}
	if err != nil {
		return nil, err
	}
	return new(key(row)), nil
}

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

func key(row dbsql.KeyByDigestRow) apikey.Key {
	permissions := make([]apikey.Permission, len(row.Permissions))
	for i, p := range row.Permissions {
		permissions[i] = apikey.Permission(p)
	}
	return apikey.Key{
		ID: row.ID, Organization: row.OrganizationID, Product: row.Product, Permissions: permissions,
		Name: row.Name, Environment: row.Environment, CreatedAt: row.CreatedAt.UTC(),
		ExpiresAt: utc(row.ExpiresAt), RevokedAt: utc(row.RevokedAt), LastUsedAt: utc(row.LastUsedAt),
	}
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}
