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
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/platform/pgdb"
)

// Tokens implements the stores of package usertoken.
type Tokens struct{ pool *pgxpool.Pool }

// NewTokens returns what the pool's database holds for tokens.
func NewTokens(pool *pgxpool.Pool) *Tokens { return &Tokens{pool: pool} }

// change runs fn in a transaction that takes the next position of the feed, which keeps other changes out.
func (t *Tokens) change(ctx context.Context, fn func(q *dbsql.Queries, position int64) error) error {
	return pgdb.InTx(ctx, t.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		position, err := q.NextTokenPosition(ctx)
		if err != nil {
			return fmt.Errorf("take feed position: %w", err)
		}
		return fn(q, position)
	})
}

// TokenPosition implements usertoken.Feed.
func (t *Tokens) TokenPosition(ctx context.Context) (int64, error) {
	return dbsql.New(t.pool).TokenPosition(ctx)
}

// TokenPolicy implements usertoken.Feed. It reads the position first: what is read after it is as new or newer.
func (t *Tokens) TokenPolicy(ctx context.Context, since time.Time) (p usertoken.Policy, err error) {
	q := dbsql.New(t.pool)
	if p.Position, err = q.TokenPosition(ctx); err != nil {
		return p, err
	}
	keys, err := q.VerifyingKeys(ctx)
	if err != nil {
		return p, err
	}
	for _, k := range keys {
		p.Keys = append(p.Keys, usertoken.PublicKey{ID: k.ID, Key: k.PublicKey, SignsFrom: k.SignsFrom.UTC()})
	}
	revocations, err := q.TokenRevocations(ctx, since)
	if err != nil {
		return p, err
	}
	p.Revoked = make(map[usertoken.Holder]usertoken.Revocation, len(revocations))
	for _, r := range revocations {
		p.Revoked[usertoken.Holder{Organization: r.OrganizationID, User: r.UserID}] = usertoken.Revocation{Position: r.Position, At: r.RevokedAt}
	}
	return p, organizations(ctx, q, &p)
}

// organizations reads what organizations have of their own.
func organizations(ctx context.Context, q *dbsql.Queries, p *usertoken.Policy) error {
	origins, err := q.AllOrigins(ctx)
	if err != nil {
		return err
	}
	p.Origins = make(map[string][]string, len(origins))
	for _, o := range origins {
		p.Origins[o.OrganizationID] = o.Origins
	}
	limits, err := q.AllOrganizationLimits(ctx)
	if err != nil {
		return err
	}
	p.Limits = make(map[string]limit.Limit, len(limits))
	for _, l := range limits {
		p.Limits[l.OrganizationID] = limitOf(&l.Requests, &l.WindowSeconds, &l.Burst)
	}
	return nil
}

// Signing implements usertoken.Store.
func (t *Tokens) Signing(ctx context.Context) (keys []usertoken.SigningKey, position int64, err error) {
	q := dbsql.New(t.pool)
	if position, err = q.TokenPosition(ctx); err != nil {
		return nil, 0, err
	}
	keys, err = signingKeys(ctx, q)
	return keys, position, err
}

func signingKeys(ctx context.Context, q *dbsql.Queries) ([]usertoken.SigningKey, error) {
	rows, err := q.SigningKeys(ctx)
	if err != nil {
		return nil, err
	}
	keys := make([]usertoken.SigningKey, len(rows))
	for i, k := range rows {
		keys[i] = usertoken.SigningKey{
			PublicKey: usertoken.PublicKey{ID: k.ID, Key: k.PublicKey, SignsFrom: k.SignsFrom.UTC()}, SealedSeed: k.SealedSeed,
		}
	}
	return keys, nil
}

// ChangeKeys implements usertoken.Store.
func (t *Tokens) ChangeKeys(ctx context.Context, decide usertoken.KeyDecision) error {
	return t.change(ctx, func(q *dbsql.Queries, _ int64) error {
		keys, err := signingKeys(ctx, q)
		if err != nil {
			return err
		}
		change, err := decide(keys)
		if err != nil || change == nil {
			return err
		}
		if err := q.DeleteSigningKeys(ctx, change.Removed); err != nil {
			return err
		}
		err = q.InsertSigningKey(ctx, dbsql.InsertSigningKeyParams{
			ID: change.Added.ID, PublicKey: change.Added.Key, SealedSeed: change.Added.SealedSeed, SignsFrom: change.Added.SignsFrom,
		})
		if err != nil || change.Entry == nil {
			return err
		}
		return audit(ctx, q, *change.Entry)
	})
}

// Revoke implements usertoken.Store.
func (t *Tokens) Revoke(ctx context.Context, holder usertoken.Holder, at, forget time.Time, entry apikey.Entry) error {
	return t.change(ctx, func(q *dbsql.Queries, position int64) error {
		if err := q.ForgetTokenRevocations(ctx, forget); err != nil {
			return err
		}
		err := q.RevokeTokens(ctx, dbsql.RevokeTokensParams{
			OrganizationID: holder.Organization, UserID: holder.User, Position: position, RevokedAt: at,
		})
		if err != nil {
			return err
		}
		return audit(ctx, q, entry)
	})
}

// Audit implements usertoken.Store.
func (t *Tokens) Audit(ctx context.Context, entry apikey.Entry) error {
	return audit(ctx, dbsql.New(t.pool), entry)
}

// Origins implements usertoken.Store.
func (t *Tokens) Origins(ctx context.Context, organization string) ([]string, error) {
	origins, err := dbsql.New(t.pool).Origins(ctx, organization)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return origins, err
}

// SetOrigins implements usertoken.Store.
func (t *Tokens) SetOrigins(ctx context.Context, organization string, origins []string, entry apikey.Entry) error {
	return t.change(ctx, func(q *dbsql.Queries, _ int64) error {
		var err error
		if len(origins) == 0 {
			err = q.RemoveOrigins(ctx, organization)
		} else {
			err = q.SetOrigins(ctx, dbsql.SetOriginsParams{OrganizationID: organization, Origins: origins, UpdatedAt: entry.At})
		}
		if err != nil {
			return err
		}
		return audit(ctx, q, entry)
	})
}
