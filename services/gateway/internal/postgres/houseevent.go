package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/operations/event"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/houseevent/outbox"
	"switchyard.dev/services/platform/pgdb"
)

var (
	_ houseevent.Outbox   = (*HouseEvents)(nil)
	_ event.BudgetStore   = (*HouseEvents)(nil)
	_ event.ObserverStore = (*HouseEvents)(nil)
)

// HouseEvents is the outbox of the gateway's events, and implements the stores of package event.
type HouseEvents struct {
	*outbox.Outbox

	pool *pgxpool.Pool
}

// NewHouseEvents returns the outbox of a database.
func NewHouseEvents(pool *pgxpool.Pool) *HouseEvents { return &HouseEvents{outbox.New(pool), pool} }

// keepHouseEvent is how long an event's record is kept if its report says nothing else.
const keepHouseEvent = 30 * 24 * time.Hour

// addHouseEvent records an event in the transaction of q, unless it is recorded.
func addHouseEvent(ctx context.Context, q *dbsql.Queries, r event.Report) error {
	data, err := json.Marshal(r.Data)
	if err != nil {
		return fmt.Errorf("house event: %w", err)
	}
	err = q.AddHouseEvent(ctx, dbsql.AddHouseEventParams{
		OrganizationID: r.Organization, Type: r.Type, Subject: r.Subject, Transition: r.Transition, Data: data,
		KeepSeconds: cmp.Or(r.Keep, keepHouseEvent).Seconds(),
	})
	if err != nil {
		return fmt.Errorf("house event: %w", err)
	}
	return nil
}

// Purge implements houseevent.Outbox. It deletes the budgets of keys that no call has come with lately, too.
func (h *HouseEvents) Purge(ctx context.Context, limit int) (int, error) {
	n, err := h.Outbox.Purge(ctx, limit)
	if err != nil {
		return 0, err
	}
	if _, err := dbsql.New(h.pool).PurgeKeyBudgets(ctx); err != nil {
		return 0, fmt.Errorf("purge key budgets: %w", err)
	}
	return n, nil
}

// Compare implements event.BudgetStore.
func (h *HouseEvents) Compare(ctx context.Context, limit int) (compared int, err error) {
	err = pgdb.InTx(ctx, h.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		mark, err := q.LockBudgetMark(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := q.PlanForAggregation(ctx); err != nil {
			return err
		}
		row, err := q.CompareBudgets(ctx, dbsql.CompareBudgetsParams{AfterTxid: mark.Txid, AfterSeq: mark.Seq, Count: int32(limit)})
		compared = int(row.Compared)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("compare budgets: %w", err)
	}
	return compared, nil
}

// Circuits implements event.ObserverStore.
func (h *HouseEvents) Circuits(ctx context.Context, open []event.Circuit, unseen time.Duration) error {
	q := dbsql.New(h.pool)
	if len(open) > 0 {
		var params dbsql.SeeCircuitsParams
		for _, c := range open {
			params.Providers, params.Families = append(params.Providers, c.Provider), append(params.Families, c.Family)
		}
		if err := q.SeeCircuits(ctx, params); err != nil {
			return fmt.Errorf("see circuits: %w", err)
		}
	}
	if err := q.CloseCircuits(ctx, unseen.Seconds()); err != nil {
		return fmt.Errorf("close circuits: %w", err)
	}
	return nil
}

// Report implements event.ObserverStore.
func (h *HouseEvents) Report(ctx context.Context, reports []event.Report) error {
	q := dbsql.New(h.pool)
	for _, r := range reports {
		if err := addHouseEvent(ctx, q, r); err != nil {
			return err
		}
	}
	return nil
}
