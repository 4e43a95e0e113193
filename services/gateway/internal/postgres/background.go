package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/serving/background"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/platform/pgdb"
)

// Background implements background.Store.
type Background struct{ pool *pgxpool.Pool }

// NewBackground returns the background responses of a database.
func NewBackground(pool *pgxpool.Pool) *Background { return &Background{pool} }

// errUnchanged rolls a transaction back.
var errUnchanged = errors.New("nothing is changed")

// Insert implements background.Store.
func (b *Background) Insert(ctx context.Context, r background.Row, response conversation.Row, events *background.SealedEvents, most int) (bool, error) {
	err := pgdb.InTx(ctx, b.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if err := q.InsertResponse(ctx, insertion(response)); err != nil {
			return err
		}
		n, err := q.InsertBackground(ctx, dbsql.InsertBackgroundParams{
			ResponseID: r.ID, OrganizationID: r.Organization, OwnerID: r.Owner, Streamed: r.Streamed, KeyID: r.Key, Sealed: r.Sealed,
			CreatedAt: response.CreatedAt, Most: int32(most),
		})
		if err == nil && n == 0 {
			err = errUnchanged
		}
		if err != nil {
			return err
		}
		return appendEvents(ctx, q, r.ID, events)
	})
	return changed("insert background response", err)
}

// changed returns whether a transaction has changed anything.
func changed(operation string, err error) (bool, error) {
	switch {
	case errors.Is(err, errUnchanged):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w", operation, err)
	}
	return true, nil
}

func appendEvents(ctx context.Context, q *dbsql.Queries, id string, e *background.SealedEvents) error {
	if e == nil {
		return nil
	}
	return q.InsertResponseEvents(ctx, dbsql.InsertResponseEventsParams{
		ResponseID: id, FirstNumber: int32(e.First), LastNumber: int32(e.Last), KeyID: e.Key, Sealed: e.Sealed,
	})
}

// Claim implements background.Store.
func (b *Background) Claim(ctx context.Context, holder string, now, until time.Time, limit int, full []string) ([]background.Row, error) {
	found, err := dbsql.New(b.pool).ClaimBackground(ctx, dbsql.ClaimBackgroundParams{
		Holder: holder, HeldUntil: until, Now: now, FullOrganizations: full, Count: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("claim background responses: %w", err)
	}
	rows := make([]background.Row, len(found))
	for i, f := range found {
		rows[i] = background.Row{
			Scope: conversation.Scope{Organization: f.OrganizationID, Owner: f.OwnerID}, ID: f.ResponseID,
			Streamed: f.Streamed, Key: f.KeyID, Sealed: f.Sealed, Attempts: int(f.Attempts), LastEvent: int(f.LastEvent),
		}
	}
	return rows, nil
}

// Renew implements background.Store.
func (b *Background) Renew(ctx context.Context, holder string, until time.Time) ([]string, error) {
	ids, err := dbsql.New(b.pool).RenewBackground(ctx, dbsql.RenewBackgroundParams{HeldUntil: until, Holder: holder})
	if err != nil {
		return nil, fmt.Errorf("renew background responses: %w", err)
	}
	return ids, nil
}

// Release implements background.Store.
func (b *Background) Release(ctx context.Context, holder, id string, begun bool) error {
	unbegun := int32(1)
	if begun {
		unbegun = 0
	}
	_, err := dbsql.New(b.pool).ReleaseBackground(ctx, dbsql.ReleaseBackgroundParams{Unbegun: unbegun, ResponseID: id, Holder: holder})
	if err != nil {
		return fmt.Errorf("release background response: %w", err)
	}
	return nil
}

// End implements background.Store.
func (b *Background) End(ctx context.Context, holder string, response conversation.Row, events *background.SealedEvents) (bool, error) {
	err := pgdb.InTx(ctx, b.pool, func(tx pgx.Tx) (err error) {
		q := dbsql.New(tx)
		var n int64
		if holder == "" {
			n, err = q.CancelBackground(ctx, dbsql.CancelBackgroundParams{ResponseID: response.ID, OrganizationID: response.Organization})
		} else {
			n, err = q.EndBackground(ctx, dbsql.EndBackgroundParams{ResponseID: response.ID, Holder: holder})
		}
		if err == nil && n == 0 {
			err = errUnchanged
		}
		if err != nil {
			return err
		}
		row := insertion(response)
		if _, err := q.ReplaceResponse(ctx, dbsql.ReplaceResponseParams{
			ItemIds: row.ItemIds, KeyID: row.KeyID, Sealed: row.Sealed, Size: row.Size, ID: row.ID,
		}); err != nil {
			return err
		}
		return appendEvents(ctx, q, response.ID, events)
	})
	return changed("end background response", err)
}

// State implements background.Store.
func (b *Background) State(ctx context.Context, organization, id string) (string, error) {
	state, err := dbsql.New(b.pool).BackgroundState(ctx, dbsql.BackgroundStateParams{ResponseID: id, OrganizationID: organization})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read state of background response: %w", err)
	}
	return state, nil
}

// Append implements background.Store.
func (b *Background) Append(ctx context.Context, id string, e background.SealedEvents) error {
	if err := appendEvents(ctx, dbsql.New(b.pool), id, &e); err != nil {
		return fmt.Errorf("append events: %w", err)
	}
	return nil
}

// Events implements background.Store.
func (b *Background) Events(ctx context.Context, id string, after, limit int) ([]background.SealedEvents, error) {
	found, err := dbsql.New(b.pool).ResponseEvents(ctx, dbsql.ResponseEventsParams{ResponseID: id, After: int32(after), Count: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	events := make([]background.SealedEvents, len(found))
	for i, f := range found {
		events[i] = background.SealedEvents{First: int(f.FirstNumber), Last: int(f.LastNumber), Key: f.KeyID, Sealed: f.Sealed}
	}
	return events, nil
}
