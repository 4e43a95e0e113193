package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

// Portal implements the store of package portal.
type Portal struct{ pool *pgxpool.Pool }

// NewPortal returns the links and sessions of the pool's database.
func NewPortal(pool *pgxpool.Pool) *Portal { return &Portal{pool: pool} }

// Insert implements portal.Store.
func (p *Portal) Insert(ctx context.Context, link portal.Link, entry apikey.Entry) error {
	scopes := make([]string, len(link.Scopes))
	for i, scope := range link.Scopes {
		scopes[i] = string(scope)
	}
	return pgdb.InTx(ctx, p.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		err := q.InsertPortalLink(ctx, dbsql.InsertPortalLinkParams{
			ID: link.ID, LinkDigest: link.Digest[:], OrganizationID: link.Organization, OwnerID: link.Owner, UserID: link.User,
			Scopes: scopes, ReturnUrl: link.ReturnURL, CreatedBy: link.CreatedBy, CreatedAt: link.CreatedAt, LinkExpiresAt: link.UntilAt,
		})
		if err != nil {
			return err
		}
		return audit(ctx, q, entry)
	})
}

// Open implements portal.Store.
func (p *Portal) Open(ctx context.Context, link, session portal.Digest, expiresAt, now time.Time) (bool, error) {
	rows, err := dbsql.New(p.pool).OpenPortalLink(ctx, dbsql.OpenPortalLinkParams{
		SessionDigest: session[:], ExpiresAt: expiresAt, LinkDigest: link[:], Now: now,
	})
	return rows == 1, err
}

// Session implements portal.Store.
func (p *Portal) Session(ctx context.Context, session portal.Digest, now time.Time) (*portal.Session, error) {
	row, err := dbsql.New(p.pool).PortalSession(ctx, dbsql.PortalSessionParams{SessionDigest: session[:], Now: now})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil // portal.Store requires it.
	}
	if err != nil {
		return nil, err
	}
	scopes := make([]apikey.Permission, len(row.Scopes))
	for i, scope := range row.Scopes {
		scopes[i] = apikey.Permission(scope)
	}
	return &portal.Session{
		ID: row.ID, Organization: row.OrganizationID, Owner: row.OwnerID, User: row.UserID,
		Scopes: scopes, ReturnURL: row.ReturnUrl, ExpiresAt: row.ExpiresAt,
	}, nil
}

// End implements portal.Store.
func (p *Portal) End(ctx context.Context, session portal.Digest, now time.Time) error {
	return dbsql.New(p.pool).EndPortalSession(ctx, dbsql.EndPortalSessionParams{Now: now, SessionDigest: session[:]})
}

// Drop implements portal.Store.
func (p *Portal) Drop(ctx context.Context, before time.Time, limit int) error {
	return dbsql.New(p.pool).DropPortalSessions(ctx, dbsql.DropPortalSessionsParams{Before: before, Page: int32(limit)})
}
