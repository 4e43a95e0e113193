package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/serving/conversation"
)

// Responses implements conversation.Store.
type Responses struct{ pool *pgxpool.Pool }

// NewResponses returns the responses of a database.
func NewResponses(pool *pgxpool.Pool) *Responses { return &Responses{pool} }

// Insert implements conversation.Store.
func (r *Responses) Insert(ctx context.Context, row conversation.Row) error {
	if err := dbsql.New(r.pool).InsertResponse(ctx, insertion(row)); err != nil {
		return fmt.Errorf("insert response: %w", err)
	}
	return nil
}

func insertion(row conversation.Row) dbsql.InsertResponseParams {
	items := row.Items
	if items == nil {
		items = []string{}
	}
	return dbsql.InsertResponseParams{
		ID: row.ID, OrganizationID: row.Organization, OwnerID: row.Owner, PreviousID: row.Previous, ItemIds: items,
		KeyID: row.Key, Sealed: notNull(row.Sealed), Size: int32(row.Size), CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt,
	}
}

// Chain implements conversation.Store.
func (r *Responses) Chain(ctx context.Context, s conversation.Scope, id string, now time.Time, turns int, bytes int64) ([]conversation.Row, error) {
	found, err := dbsql.New(r.pool).ResponseChain(ctx, dbsql.ResponseChainParams{
		ID: id, OrganizationID: s.Organization, OwnerID: s.Owner, Now: now, MostTurns: int32(turns), MostBytes: bytes,
	})
	if err != nil {
		return nil, fmt.Errorf("read conversation: %w", err)
	}
	rows := make([]conversation.Row, len(found))
	for i, f := range found {
		rows[i] = conversation.Row{
			Scope: s, ID: f.ID, Previous: f.PreviousID, Key: f.KeyID, Sealed: f.Sealed, Size: int(f.Size),
			CreatedAt: f.CreatedAt, ExpiresAt: f.ExpiresAt,
		}
	}
	return rows, nil
}

// Holding implements conversation.Store.
func (r *Responses) Holding(ctx context.Context, s conversation.Scope, items []string, now time.Time, limit int) ([]conversation.Row, error) {
	found, err := dbsql.New(r.pool).ResponsesWithItems(ctx, dbsql.ResponsesWithItemsParams{
		Items: items, OrganizationID: s.Organization, OwnerID: s.Owner, Now: now, Count: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("find items: %w", err)
	}
	rows := make([]conversation.Row, len(found))
	for i, f := range found {
		rows[i] = conversation.Row{
			Scope: s, ID: f.ID, Previous: f.PreviousID, Key: f.KeyID, Sealed: f.Sealed, Size: int(f.Size),
			CreatedAt: f.CreatedAt, ExpiresAt: f.ExpiresAt,
		}
	}
	return rows, nil
}

// Delete implements conversation.Store.
func (r *Responses) Delete(ctx context.Context, s conversation.Scope, id string, now time.Time) (bool, error) {
	n, err := dbsql.New(r.pool).DeleteResponse(ctx, dbsql.DeleteResponseParams{ID: id, OrganizationID: s.Organization, OwnerID: s.Owner, Now: now})
	if err != nil {
		return false, fmt.Errorf("delete response: %w", err)
	}
	return n > 0, nil
}

// Drop implements conversation.Store.
func (r *Responses) Drop(ctx context.Context, now time.Time, limit int) (int, error) {
	n, err := dbsql.New(r.pool).DropResponses(ctx, dbsql.DropResponsesParams{Now: now, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("drop responses: %w", err)
	}
	return int(n), nil
}

// Erase implements conversation.Store.
func (r *Responses) Erase(ctx context.Context, organization string, until time.Time, limit int) (int, error) {
	n, err := dbsql.New(r.pool).EraseResponses(ctx, dbsql.EraseResponsesParams{OrganizationID: organization, Before: until, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("erase responses: %w", err)
	}
	return int(n), nil
}
