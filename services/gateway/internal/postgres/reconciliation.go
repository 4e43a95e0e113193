package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/money/reconcile"
	"switchyard.dev/services/gateway/internal/operations/event"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/houseevent"
)

// Reconciliations implements reconcile.Store.
type Reconciliations struct{ control *Control }

// NewReconciliations returns the reconciliations of a database.
func NewReconciliations(c *Control) *Reconciliations { return &Reconciliations{c} }

// Metered implements reconcile.Store.
func (r *Reconciliations) Metered(ctx context.Context, start, end time.Time, providers []string) ([]reconcile.Metered, error) {
	if err := awaitEntries(ctx, r.control.pool); err != nil {
		return nil, fmt.Errorf("metered by model: %w", err)
	}
	rows, err := dbsql.New(r.control.pool).MeteredByModel(ctx, dbsql.MeteredByModelParams{PeriodStart: start, PeriodEnd: end, Providers: providers})
	if err != nil {
		return nil, fmt.Errorf("metered by model: %w", err)
	}
	all := make([]reconcile.Metered, len(rows))
	for i, row := range rows {
		all[i] = reconcile.Metered{
			Provider: row.Provider, Model: row.Model, Calls: row.Calls, Cost: toMoney(row.CostPicoUsd), Estimated: toMoney(row.EstimatedPicoUsd),
		}
	}
	return all, nil
}

// toMoney returns a whole number; NULL is 0.
func toMoney(n pgtype.Numeric) amount.Amount {
	if !n.Valid || n.Int == nil {
		return amount.Amount{}
	}
	whole := new(big.Int).Set(n.Int)
	if n.Exp > 0 { // The wire format omits trailing zeros.
		whole.Mul(whole, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n.Exp)), nil))
	}
	return amount.Pico(whole)
}

func fromMoney(m amount.Amount) pgtype.Numeric { return pgtype.Numeric{Int: m.Pico(), Valid: true} }

// Keep implements reconcile.Store.
func (r *Reconciliations) Keep(ctx context.Context, key string, result reconcile.Result) (kept reconcile.Result, repeated bool, err error) {
	result.CreatedAt = storedTime(result.CreatedAt)
	hash := result.Hash()
	entry := audit.New(ctx, "pricing.reconcile", audit.Subject{Type: "reconciliation", ID: result.ID.String()}, "")
	if entry.Details, err = json.Marshal(map[string]any{
		"invoice_ref": result.Ref, "status": result.Status, "total_amount_cents": result.Billed.String(), "total_metered_cents": result.Metered.String(),
	}); err != nil {
		return result, false, err
	}
	err = r.control.Record(ctx, &entry, func(ctx context.Context, q *dbsql.Queries) error {
		added, err := q.AddReconciliation(ctx, dbsql.AddReconciliationParams{
			ID: result.ID, IdempotencyKey: key, ContentHash: hash, PeriodStart: result.Start, PeriodEnd: result.End,
			Status: string(result.Status), TolerancePicoUsd: fromMoney(result.Tolerance), AmountPicoUsd: fromMoney(result.Billed),
			MeteredPicoUsd: fromMoney(result.Metered), InvoiceRef: result.Ref, CreatedAt: result.CreatedAt, CreatedBy: result.CreatedBy,
		})
		if err != nil {
			return err
		}
		if repeated = added == 0; repeated {
			return control.ErrUnchanged
		}
		if err := q.AddReconciliationLines(ctx, linesOf(&result)); err != nil {
			return err
		}
		if result.Status != reconcile.Delta {
			return nil
		}
		return addHouseEvent(ctx, q, driftEvent(&result))
	})
	if err != nil {
		return result, false, fmt.Errorf("keep reconciliation: %w", err)
	}
	if !repeated {
		return result, false, nil
	}
	return r.Find(ctx, key, hash) // Another call was first.
}

// driftEvent returns what operators are told of an invoice that differs from the ledger.
func driftEvent(result *reconcile.Result) event.Report {
	return event.Report{Type: houseevent.PriceDrift, Subject: "reconciliation/" + result.ID.String(), Data: map[string]any{
		"reconciliation_id": result.ID, "invoice_ref": result.Ref, "amount_cents": result.Billed.String(), "metered_cents": result.Metered.String(),
		"period_start": result.Start, "period_end": result.End,
	}}
}

func linesOf(result *reconcile.Result) dbsql.AddReconciliationLinesParams {
	p := dbsql.AddReconciliationLinesParams{ReconciliationID: result.ID}
	for i, c := range result.Compared {
		p.Position = append(p.Position, int32(i))
		p.Provider, p.Model = append(p.Provider, c.Provider), append(p.Model, c.Model)
		p.AmountPicoUsd = append(p.AmountPicoUsd, fromMoney(c.Amount))
		p.MeteredPicoUsd = append(p.MeteredPicoUsd, fromMoney(c.Metered))
		p.EstimatedPicoUsd = append(p.EstimatedPicoUsd, fromMoney(c.Estimated))
		p.Calls, p.Status = append(p.Calls, c.Calls), append(p.Status, string(c.Status))
	}
	return p
}

// Find implements reconcile.Store.
func (r *Reconciliations) Find(ctx context.Context, key string, hash []byte) (result reconcile.Result, found bool, err error) {
	row, err := dbsql.New(r.control.pool).ReconciliationByKey(ctx, key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return result, false, nil
	case err != nil:
		return result, false, fmt.Errorf("find reconciliation: %w", err)
	case !bytes.Equal(row.ContentHash, hash):
		return result, false, apierr.New(apierr.KindUnprocessable, reconcile.ReasonKeyReused, "idempotency_key: was used with another invoice")
	}
	result, err = r.withLines(ctx, row)
	return result, err == nil, err
}

// Get implements reconcile.Store.
func (r *Reconciliations) Get(ctx context.Context, id uuid.UUID) (reconcile.Result, error) {
	row, err := dbsql.New(r.control.pool).GetReconciliation(ctx, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return reconcile.Result{}, apierr.NotFound("reconciliation")
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("get reconciliation: %w", err)
	}
	return r.withLines(ctx, row)
}

func (r *Reconciliations) withLines(ctx context.Context, row dbsql.Reconciliation) (reconcile.Result, error) {
	result := toResult(row)
	lines, err := dbsql.New(r.control.pool).ReconciliationLines(ctx, row.ID)
	if err != nil {
		return result, fmt.Errorf("reconciliation lines: %w", err)
	}
	for _, l := range lines {
		result.Compared = append(result.Compared, reconcile.Compared{
			Line:    reconcile.Line{Provider: l.Provider, Model: l.Model, Amount: toMoney(l.AmountPicoUsd)},
			Metered: toMoney(l.MeteredPicoUsd), Estimated: toMoney(l.EstimatedPicoUsd), Calls: l.Calls, Status: reconcile.Status(l.Status),
		})
	}
	return result, nil
}

func toResult(row dbsql.Reconciliation) reconcile.Result {
	return reconcile.Result{
		ID: row.ID, Sequence: row.Seq.Int64, Status: reconcile.Status(row.Status), Billed: toMoney(row.AmountPicoUsd), Metered: toMoney(row.MeteredPicoUsd),
		CreatedAt: row.CreatedAt, CreatedBy: row.CreatedBy,
		Invoice: reconcile.Invoice{Start: row.PeriodStart, End: row.PeriodEnd, Tolerance: toMoney(row.TolerancePicoUsd), Ref: row.InvoiceRef},
	}
}

// List implements reconcile.Store.
func (r *Reconciliations) List(ctx context.Context, before int64, limit int) ([]reconcile.Result, error) {
	rows, err := dbsql.New(r.control.pool).ListReconciliations(ctx, dbsql.ListReconciliationsParams{Before: before, Count: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("list reconciliations: %w", err)
	}
	results := make([]reconcile.Result, len(rows))
	for i, row := range rows {
		results[i] = toResult(row)
	}
	return results, nil
}

// Forget implements reconcile.Store.
func (r *Reconciliations) Forget(ctx context.Context, before time.Time, limit int) (int, error) {
	n, err := dbsql.New(r.control.pool).ForgetReconciliations(ctx, dbsql.ForgetReconciliationsParams{Before: before, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("forget reconciliations: %w", err)
	}
	return int(n), nil
}
