package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

var _ approver.GroupStore = (*Approvers)(nil)

// Approvers implements the stores of package approver.
type Approvers struct{ pool *pgxpool.Pool }

// NewApprovers returns the groups of approvers of the pool's database.
func NewApprovers(pool *pgxpool.Pool) *Approvers { return &Approvers{pool: pool} }

// Get implements approver.GroupStore.
func (a *Approvers) Get(ctx context.Context, organization string) ([]byte, error) {
	return approverGroups(ctx, dbsql.New(a.pool), organization)
}

func approverGroups(ctx context.Context, q *dbsql.Queries, organization string) ([]byte, error) {
	text, err := q.GetApproverGroups(ctx, organization)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get approver groups: %w", err)
	}
	return text, nil
}

// actionSetApprovers is the action of groups of approvers in the audit.
const actionSetApprovers = "organization.approvers"

// Put implements approver.GroupStore.
func (a *Approvers) Put(ctx context.Context, organization string, groups []byte, names []string, by alert.Author) error {
	err := pgdb.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if err := q.PutApproverGroups(ctx, dbsql.PutApproverGroupsParams{OrganizationID: organization, Groups: groups}); err != nil {
			return err
		}
		return audit(ctx, q, alertEntry(actionSetApprovers, organization, by, map[string]any{"groups": names}))
	})
	if err != nil {
		return fmt.Errorf("put approver groups: %w", err)
	}
	return nil
}
