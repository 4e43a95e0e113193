package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/console"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/platform/caller"
)

// Console implements the store of package console.
type Console struct{ pool *pgxpool.Pool }

// NewConsole returns the console's sessions of the pool's database.
func NewConsole(pool *pgxpool.Pool) *Console { return &Console{pool: pool} }

// Insert implements console.Store.
func (c *Console) Insert(ctx context.Context, s console.Session, digest console.Digest, createdAt time.Time, entry console.Entry) error {
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if err := audit(ctx, q, entryOf(entry)); err != nil {
			return err
		}
		return q.InsertConsoleSession(ctx, dbsql.InsertConsoleSessionParams{
			ID: s.ID, SessionDigest: digest[:], TokenDigest: s.Token[:], Operator: s.Operator,
			CreatedAt: createdAt, IdleAt: s.IdleAt, EndsAt: s.EndsAt,
		})
	})
}

// Session implements console.Store.
func (c *Console) Session(ctx context.Context, digest console.Digest, now time.Time) (*console.Session, error) {
	row, err := dbsql.New(c.pool).ConsoleSession(ctx, dbsql.ConsoleSessionParams{SessionDigest: digest[:], Now: now})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil // console.Store requires it.
	}
	if err != nil {
		return nil, err
	}
	return &console.Session{
		ID: row.ID, Operator: row.Operator, Token: caller.TokenDigest(row.TokenDigest), IdleAt: row.IdleAt, EndsAt: row.EndsAt,
	}, nil
}

// Extend implements console.Store.
func (c *Console) Extend(ctx context.Context, digest console.Digest, idleAt, now time.Time) error {
	return dbsql.New(c.pool).ExtendConsoleSession(ctx, dbsql.ExtendConsoleSessionParams{IdleAt: idleAt, SessionDigest: digest[:], Now: now})
}

// End implements console.Store.
func (c *Console) End(ctx context.Context, digest console.Digest, now time.Time) error {
	return dbsql.New(c.pool).EndConsoleSession(ctx, dbsql.EndConsoleSessionParams{Now: now, SessionDigest: digest[:]})
}

// Drop implements console.Store.
func (c *Console) Drop(ctx context.Context, before time.Time, limit int) error {
	return dbsql.New(c.pool).DropConsoleSessions(ctx, dbsql.DropConsoleSessionsParams{Before: before, Page: int32(limit)})
}

// Audit implements console.Store.
func (c *Console) Audit(ctx context.Context, entry console.Entry) error {
	return audit(ctx, dbsql.New(c.pool), entryOf(entry))
}

// Organizations implements console.Store.
func (c *Console) Organizations(ctx context.Context, prefix, after string, limit int) ([]console.Organization, error) {
	rows, err := dbsql.New(c.pool).ListOrganizations(ctx, dbsql.ListOrganizationsParams{Prefix: prefix, After: after, Page: int32(limit)})
	if err != nil {
		return nil, err
	}
	found := make([]console.Organization, len(rows))
	for i, row := range rows {
		found[i] = console.Organization{ID: row.OrganizationID, Plan: row.Plan}
	}
	return found, nil
}

func entryOf(e console.Entry) apikey.Entry {
	return apikey.Entry{
		At: e.At, Actor: apikey.Actor{Name: e.Operator, Request: e.Request}, Action: e.Action, Organization: e.Organization, Details: e.Details,
	}
}
