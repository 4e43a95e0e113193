package api

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/feed"
)

// chargesPage is the default size of a page of charges.
const chargesPage = 1000

// ListCharges returns the charges after a position.
func (s *usageServer) ListCharges(ctx context.Context, m *gatewayv1.ListChargesRequest) (*gatewayv1.ListChargesResponse, error) {
	after, ok := feed.Parse(m.GetAfter())
	if !ok {
		return nil, apierr.Invalid("after", "must be a position of a charge or the next of a page")
	}
	filter := ledger.Filter{Organization: m.GetOrganizationId()}
	var err error
	if filter.Since, filter.Until, err = toInterval(m.GetSince(), m.GetUntil()); err != nil {
		return nil, err
	}
	limit := int(m.GetLimit())
	if limit == 0 {
		limit = chargesPage
	}
	page, err := s.feed.Charges(ctx, filter, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list charges: %w", err)
	}
	out := &gatewayv1.ListChargesResponse{Charges: make([]*gatewayv1.Charge, len(page.Charges)), Next: page.Next.String()}
	for i := range page.Charges {
		out.Charges[i] = toCharge(&page.Charges[i])
	}
	return out, nil
}

func toCharge(c *ledger.Charge) *gatewayv1.Charge {
	return &gatewayv1.Charge{
		Id: c.ID.String(), Position: c.Position.String(), OrganizationId: c.Organization, KeyId: c.Key,
		PromptTokens: float64(c.Prompt), CompletionTokens: float64(c.Completion), CostPicoUsd: strconv.FormatInt(int64(c.Cost), 10),
		StartedAt: timestamppb.New(c.StartedAt), RecordedAt: timestamppb.New(c.RecordedAt),
	}
}
