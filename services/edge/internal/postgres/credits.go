package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

// actionGrant is the action of a grant in the audit.
const actionGrant = "credit.grant"

// Credits implements credit.Store.
type Credits struct{ pool *pgxpool.Pool }

// NewCredits returns the credits of the pool's database.
func NewCredits(pool *pgxpool.Pool) *Credits { return &Credits{pool: pool} }

// Grant implements credit.Store.
func (c *Credits) Grant(ctx context.Context, g credit.Grant, most int, by credit.Author) (stored credit.Grant, added bool, err error) {
	err = pgdb.InTx(ctx, c.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if err := q.LockCredits(ctx, g.Organization); err != nil {
			return fmt.Errorf("lock credits: %w", err)
		}
		row, err := q.GrantByIdempotencyKey(ctx, dbsql.GrantByIdempotencyKeyParams{OrganizationID: g.Organization, IdempotencyKey: g.IdempotencyKey})
		if err == nil {
			stored = grant(row)
			return nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		open, err := q.CountOpenGrants(ctx, dbsql.CountOpenGrantsParams{OrganizationID: g.Organization, Now: g.CreatedAt})
		if err != nil || open >= int64(most) {
			return err
		}
		stored, added = g, true
		return insertGrant(ctx, q, g, by)
	})
	if err != nil {
		return credit.Grant{}, false, err
	}
	return stored, added, nil
}

// insertGrant adds a grant with its audit entry, and has the organization's feed read.
func insertGrant(ctx context.Context, q *dbsql.Queries, g credit.Grant, by credit.Author) error {
	if err := q.AddGrant(ctx, dbsql.AddGrantParams{
		ID: g.ID, OrganizationID: g.Organization, IdempotencyKey: g.IdempotencyKey, PicoUsd: g.Pico, Note: g.Note,
		CreatedAt: g.CreatedAt, ExpiresAt: g.ExpiresAt,
	}); err != nil {
		return fmt.Errorf("insert grant: %w", err)
	}
	month, _ := plan.Month.Window(g.CreatedAt)
	if err := q.FollowSpend(ctx, dbsql.FollowSpendParams{Organizations: []string{g.Organization}, Since: month, CalledAt: g.CreatedAt}); err != nil {
		return fmt.Errorf("follow spend: %w", err)
	}
	return audit(ctx, q, apikey.Entry{
		At: g.CreatedAt, Actor: apikey.Actor{Name: by.Name, Request: by.Request}, Action: actionGrant, Organization: g.Organization,
		Details: map[string]any{"grant": g.ID, "amount_cents": g.Pico / credit.PicoPerCent, "expires_at": g.ExpiresAt, "note": g.Note},
	})
}

func grant(row dbsql.CreditGrant) credit.Grant {
	return credit.Grant{
		ID: row.ID, Organization: row.OrganizationID, IdempotencyKey: row.IdempotencyKey, Pico: row.PicoUsd, Spent: row.SpentPicoUsd,
		Note: row.Note, CreatedAt: row.CreatedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(),
	}
}

// Grants implements credit.Store.
func (c *Credits) Grants(ctx context.Context, organization, after string, limit int) ([]credit.Grant, error) {
	rows, err := dbsql.New(c.pool).ListGrants(ctx, dbsql.ListGrantsParams{OrganizationID: organization, After: after, Page: int32(limit)})
	if err != nil {
		return nil, err
	}
	grants := make([]credit.Grant, len(rows))
	for i, row := range rows {
		grants[i] = grant(row)
	}
	return grants, nil
}

// Balance implements credit.Store.
func (c *Credits) Balance(ctx context.Context, organization string, now time.Time) (credit.Balance, bool, error) {
	q := dbsql.New(c.pool)
	row, err := q.CreditBalance(ctx, dbsql.CreditBalanceParams{OrganizationID: organization, Now: now})
	if err != nil || row.Grants == 0 {
		return credit.Balance{}, false, err
	}
	uncovered, err := q.UncoveredSpend(ctx, organization)
	return credit.Balance{Pico: row.PicoUsd, Uncovered: uncovered}, true, err
}

// draw spends costs from the organization's grants, and records it. Costs from before the first grant are left out.
func draw(ctx context.Context, q *dbsql.Queries, organization string, costs []credit.Cost, now time.Time) error {
	first, err := q.FirstGrant(ctx, organization)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find first grant: %w", err)
	}
	costs = slices.DeleteFunc(costs, func(c credit.Cost) bool { return c.At.Before(first) })
	rows, err := q.LockOpenGrants(ctx, organization)
	if err != nil {
		return fmt.Errorf("lock grants: %w", err)
	}
	grants := make([]credit.Grant, len(rows))
	for i, row := range rows {
		grants[i] = credit.Grant{ID: row.ID, Pico: row.PicoUsd, Spent: row.SpentPicoUsd, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt}
	}
	charged, uncovered := credit.Draw(grants, costs)
	for i, pico := range charged {
		if pico == 0 {
			continue
		}
		if err := q.SpendGrant(ctx, dbsql.SpendGrantParams{ID: grants[i].ID, PicoUsd: pico}); err != nil {
			return fmt.Errorf("spend grant: %w", err)
		}
		if err := addEntry(ctx, q, organization, &grants[i].ID, pico, now); err != nil {
			return err
		}
	}
	if uncovered == 0 {
		return nil
	}
	return addEntry(ctx, q, organization, nil, uncovered, now)
}

func addEntry(ctx context.Context, q *dbsql.Queries, organization string, grantID *string, pico int64, now time.Time) error {
	if err := q.AddCreditEntry(ctx, dbsql.AddCreditEntryParams{OrganizationID: organization, GrantID: grantID, PicoUsd: pico, RecordedAt: now}); err != nil {
		return fmt.Errorf("add credit entry: %w", err)
	}
	return nil
}
