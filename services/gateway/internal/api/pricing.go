package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/reconcile"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// Reconciler compares invoices with the ledger; see package reconcile.
type Reconciler interface {
	Reconcile(ctx context.Context, key string, invoice reconcile.Invoice, by string, now time.Time) (reconcile.Result, bool, error)
	Get(ctx context.Context, id uuid.UUID) (reconcile.Result, error)
	List(ctx context.Context, before int64, limit int) ([]reconcile.Result, error)
}

// pricingServer serves price reviews and reconciliations.
type pricingServer struct {
	gatewayv1.UnimplementedPricingServiceServer

	// prices returns the price table in force, canonical a provider's name for an alias.
	prices     func() *price.Table
	canonical  func(name string) (string, bool)
	policies   Policies
	reconciler Reconciler
}

// ListPricingDrift returns a page of the prices that are due for a review.
func (s *pricingServer) ListPricingDrift(_ context.Context, m *gatewayv1.ListPricingDriftRequest) (*gatewayv1.ListPricingDriftResponse, error) {
	now := time.Now()
	overdue, total := s.prices().Drift(now)
	out := &gatewayv1.ListPricingDriftResponse{Overdue: int32(len(overdue)), Total: int32(total)}
	provider := m.GetProvider()
	if name, ok := s.canonical(provider); ok {
		provider = name
	}
	var wanted []price.Row
	for _, row := range overdue {
		if provider == "" || row.Provider == provider {
			wanted = append(wanted, row)
		}
	}
	page, cursor, err := pageOf(newKeyset("drift", provider), m, 3, wanted, func(r price.Row) []string {
		return []string{r.Due().Format(time.DateOnly), r.Provider, r.Model}
	})
	if err != nil {
		return nil, err
	}
	out.NextCursor = cursor
	for _, row := range page {
		out.Prices = append(out.Prices, &gatewayv1.PriceDrift{
			Provider: row.Provider, ModelId: row.Model, Price: fromPrice(&row), ReviewCadenceDays: int32(wholeDays(row.ReviewEvery)),
			DueOn: row.Due().Format(time.DateOnly), OverdueDays: int32(wholeDays(now.Sub(row.Due()))),
		})
	}
	return out, nil
}

// ReconcilePricing compares an invoice with the ledger, once for each invoice.
func (s *pricingServer) ReconcilePricing(ctx context.Context, m *gatewayv1.ReconcilePricingRequest) (*gatewayv1.Reconciliation, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	key, err := caller.From(ctx).IdempotencyKeyOf(m.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	invoice, err := s.toInvoice(m)
	if err != nil {
		return nil, err
	}
	result, repeated, err := s.reconciler.Reconcile(ctx, key, invoice, actor(ctx), present())
	if err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	if !repeated {
		rpc.SetStatus(ctx, http.StatusCreated)
	}
	out := fromResult(&result)
	out.Deduplicated = repeated
	return out, nil
}

// defaultTolerance is one cent.
const defaultTolerance = 1.0

func (s *pricingServer) toInvoice(m *gatewayv1.ReconcilePricingRequest) (invoice reconcile.Invoice, err error) {
	invoice.Ref = m.GetInvoiceRef()
	if invoice.Start, err = toMoment("period_start", m.GetPeriodStart()); err != nil {
		return invoice, err
	}
	if invoice.End, err = toMoment("period_end", m.GetPeriodEnd()); err != nil {
		return invoice, err
	}
	tolerance := defaultTolerance
	if m.ToleranceCents != nil {
		tolerance = m.GetToleranceCents()
	}
	if invoice.Tolerance, err = amount.FromCents(tolerance); err != nil {
		return invoice, apierr.Invalid("tolerance_cents", err.Error())
	}
	switch lines, csv := len(m.GetLines()) > 0, m.GetCsv() != ""; {
	case lines == csv:
		return invoice, apierr.Invalid("lines", "exactly one of lines and csv is required")
	case csv:
		invoice.Lines, err = reconcile.ParseCSV(m.GetCsv())
	default:
		invoice.Lines, err = toLines(m.GetLines())
	}
	policy, _, _ := s.policies.Present()
	for i := range invoice.Lines {
		line := &invoice.Lines[i]
		if name, ok := s.canonical(line.Provider); ok {
			line.Provider = name
		}
		line.Model = policy.ByUpstream(provider.Target{Provider: line.Provider, Model: line.Model})
	}
	return invoice, err
}

func toLines(lines []*gatewayv1.InvoiceLine) ([]reconcile.Line, error) {
	all := make([]reconcile.Line, len(lines))
	for i, l := range lines {
		var err error
		all[i], err = reconcile.NewLine(l.GetProvider(), l.GetModel(), func() (amount.Amount, error) { return amount.FromCents(l.GetAmountCents()) })
		if err != nil {
			return nil, apierr.New(apierr.KindInvalid, apierr.ReasonInvalidRequest, fmt.Sprintf("lines[%d].%v", i, err))
		}
	}
	return all, nil
}

// ListReconciliations returns a page of stored results, newest first.
func (s *pricingServer) ListReconciliations(
	ctx context.Context, m *gatewayv1.ListReconciliationsRequest,
) (*gatewayv1.ListReconciliationsResponse, error) {
	page := newKeyset("reconciliations")
	before, err := page.number(m.GetCursor())
	if err != nil {
		return nil, err
	}
	limit := pageSize(m.GetLimit())
	found, err := s.reconciler.List(ctx, before, limit+1)
	if err != nil {
		return nil, fmt.Errorf("reconciliations: %w", err)
	}
	out := &gatewayv1.ListReconciliationsResponse{}
	if len(found) > limit {
		found = found[:limit]
		out.NextCursor = page.cursor(strconv.FormatInt(found[limit-1].Sequence, 10))
	}
	for i := range found {
		out.Reconciliations = append(out.Reconciliations, fromResult(&found[i]))
	}
	return out, nil
}

// GetReconciliation returns one stored result.
func (s *pricingServer) GetReconciliation(ctx context.Context, m *gatewayv1.GetReconciliationRequest) (*gatewayv1.Reconciliation, error) {
	id, err := uuid.Parse(m.GetReconciliationId())
	if err != nil {
		return nil, apierr.NotFound("reconciliation")
	}
	result, err := s.reconciler.Get(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("reconciliation: %w", err)
	}
	return fromResult(&result), nil
}

func fromResult(r *reconcile.Result) *gatewayv1.Reconciliation {
	out := &gatewayv1.Reconciliation{
		ReconciliationId: r.ID.String(), PeriodStart: timestamppb.New(r.Start), PeriodEnd: timestamppb.New(r.End), Status: string(r.Status),
		TotalAmountCents: r.Billed.Cents(), TotalMeteredCents: r.Metered.Cents(), TotalDeltaCents: r.Billed.Minus(r.Metered).Cents(),
		ToleranceCents: r.Tolerance.Cents(), InvoiceRef: toNullable(r.Ref), CreatedAt: timestamppb.New(r.CreatedAt), CreatedBy: r.CreatedBy,
	}
	for _, c := range r.Compared {
		out.Lines = append(out.Lines, &gatewayv1.ReconciliationLine{
			Provider: c.Provider, Model: toNullable(c.Model), AmountCents: c.Amount.Cents(), MeteredCents: c.Metered.Cents(),
			DeltaCents: c.Delta().Cents(), Status: string(c.Status), Calls: clamp(c.Calls), EstimatedCents: c.Estimated.Cents(),
		})
	}
	return out
}
