// Package postgres persists the edge's keys and billing counters. Package app passes its stores to apikey and meter.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

// Keys implements the stores of package apikey.
type Keys struct{ pool *pgxpool.Pool }

// NewKeys returns the keys of the pool's database.
func NewKeys(pool *pgxpool.Pool) *Keys { return &Keys{pool: pool} }

// inFeed runs fn in a transaction with the next position of the feed.
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
func (k *Keys) Insert(ctx context.Context, key apikey.Key, digest apikey.Digest, entry apikey.Entry) error {
	return k.inFeed(ctx, func(q *dbsql.Queries, position int64) error {
		if err := insert(ctx, q, key, digest, position); err != nil {
			return err
		}
		return audit(ctx, q, entry)
	})
}

func insert(ctx context.Context, q *dbsql.Queries, key apikey.Key, digest apikey.Digest, position int64) error {
	permissions := make([]string, len(key.Permissions))
	for i, p := range key.Permissions {
		permissions[i] = string(p)
	}
	requests, window, burst := limitColumns(key.Limit)
	return planned(q.InsertKey(ctx, dbsql.InsertKeyParams{
		ID: key.ID, Digest: digest[:], OrganizationID: key.Organization, Product: key.Product,
		Permissions: permissions, Name: key.Name, Environment: key.Environment,
		CreatedAt: key.CreatedAt, ExpiresAt: key.ExpiresAt,
		LimitRequests: requests, LimitWindowSeconds: window, LimitBurst: burst,
		TokensPerMinute: null(key.Terms.TokensPerMinute), Models: key.Terms.Models, Class: null(string(key.Terms.Class)),
		BudgetCeilingCents: null(key.Terms.Budget.CeilingCents), BudgetPeriod: null(string(key.Terms.Budget.Period)),
		Origin: null(key.Origin), Plan: null(key.Plan), Position: position,
	}))
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

// Get implements apikey.Store.
func (k *Keys) Get(ctx context.Context, id string) (*apikey.Key, error) {
	row, err := dbsql.New(k.pool).KeyByID(ctx, id)
	return found(dbsql.KeyByDigestRow(row), err)
}

// KeyByDigest implements apikey.Loader.
func (k *Keys) KeyByDigest(ctx context.Context, digest apikey.Digest) (*apikey.Key, error) {
	row, err := dbsql.New(k.pool).KeyByDigest(ctx, digest[:])
	return found(row, err)
}

// found returns the key of a row; nil without an error if there was none.
func found(row dbsql.KeyByDigestRow, err error) (*apikey.Key, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil // apikey's interfaces require it.
	}
	if err != nil {
		return nil, err
	}
	return new(key(row)), nil
}

// Change implements apikey.Store.
func (k *Keys) Change(ctx context.Context, id string, decide apikey.Decision) (changed apikey.Key, digest apikey.Digest, found bool, err error) {
	err = k.inFeed(ctx, func(q *dbsql.Queries, position int64) error {
		row, err := q.LockKey(ctx, id)
		if err != nil {
			return err
		}
		changed = key(dbsql.KeyByDigestRow(row))
		copy(digest[:], row.Digest)
		change, err := decide(&changed)
		if err != nil {
			return err
		}
		if change.Successor != nil {
			if position, err = succeed(ctx, q, change, position); err != nil {
				return err
			}
		}
		if err := update(ctx, q, changed, position); err != nil {
			return err
		}
		if change.Entry == nil {
			return nil
		}
		return audit(ctx, q, *change.Entry)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return apikey.Key{}, digest, false, nil
	}
	return changed, digest, err == nil, err
}

// succeed adds the successor under a position and returns the next one.
func succeed(ctx context.Context, q *dbsql.Queries, change apikey.Change, position int64) (next int64, err error) {
	if err := insert(ctx, q, *change.Successor, change.Digest, position); err != nil {
		return position, fmt.Errorf("insert successor: %w", err)
	}
	return q.NextPosition(ctx)
}

func update(ctx context.Context, q *dbsql.Queries, key apikey.Key, position int64) error {
	requests, window, burst := limitColumns(key.Limit)
	return planned(q.UpdateKey(ctx, dbsql.UpdateKeyParams{
		ID: key.ID, Name: key.Name, ExpiresAt: key.ExpiresAt, RevokedAt: key.RevokedAt, ReplacedBy: null(key.ReplacedBy),
		LimitRequests: requests, LimitWindowSeconds: window, LimitBurst: burst,
		TokensPerMinute: null(key.Terms.TokensPerMinute), Models: key.Terms.Models, Class: null(string(key.Terms.Class)),
		BudgetCeilingCents: null(key.Terms.Budget.CeilingCents), BudgetPeriod: null(string(key.Terms.Budget.Period)),
		Plan: null(key.Plan), Position: position,
	}))
}

// OrganizationLimit implements apikey.Store.
func (k *Keys) OrganizationLimit(ctx context.Context, organization string) (limit.Limit, error) {
	row, err := dbsql.New(k.pool).OrganizationLimit(ctx, organization)
	if errors.Is(err, pgx.ErrNoRows) {
		return limit.Limit{}, nil
	}
	return limitOf(&row.Requests, &row.WindowSeconds, &row.Burst), err
}

// SetOrganizationLimit implements apikey.Store.
func (k *Keys) SetOrganizationLimit(ctx context.Context, organization string, l limit.Limit, entry apikey.Entry) error {
	return k.inFeed(ctx, func(q *dbsql.Queries, _ int64) error {
		var err error
		if l == (limit.Limit{}) {
			err = q.RemoveOrganizationLimit(ctx, organization)
		} else {
			err = q.SetOrganizationLimit(ctx, dbsql.SetOrganizationLimitParams{
				OrganizationID: organization, Requests: int32(l.Requests), WindowSeconds: int32(l.Window / time.Second),
				Burst: int32(l.Burst), UpdatedAt: entry.At,
			})
		}
		if err != nil {
			return err
		}
		if err := renumber(ctx, q, organization); err != nil {
			return err
		}
		if _, err := q.NextTokenPosition(ctx); err != nil { // the limit holds for tokens, too
			return fmt.Errorf("take token feed position: %w", err)
		}
		return audit(ctx, q, entry)
	})
}

// renumber marks all keys of an organization as changed.
func renumber(ctx context.Context, q *dbsql.Queries, organization string) error {
	positions, err := q.RenumberOrganization(ctx, organization)
	if err != nil || len(positions) == 0 {
		return err
	}
	last := positions[0]
	for _, p := range positions {
		last = max(last, p)
	}
	return q.MovePosition(ctx, last)
}
