package api

import (
	"context"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Catalog returns the models in force.
type Catalog interface {
	Registry() *catalog.Registry
	// Deprecate stores a deprecation and returns the model's row after it.
	Deprecate(ctx context.Context, w catalog.DeprecationRequest) (catalog.Row, error)
}

// modelServer serves the model cards and the registry.
type modelServer struct {
	gatewayv1.UnimplementedModelServiceServer

	catalog Catalog
}

// ListModelCards returns a page of the cards.
func (s *modelServer) ListModelCards(ctx context.Context, m *gatewayv1.ListModelCardsRequest) (*gatewayv1.ListModelCardsResponse, error) {
	now := time.Now()
	var cards []catalog.Card
	for _, card := range s.catalog.Registry().Cards(now) {
		if m.GetOperation() == "" || serves(card, m.GetOperation()) {
			cards = append(cards, card)
		}
	}
	page, cursor, err := pageOf(newKeyset("cards", m.GetOperation()), m, 2, cards, func(c catalog.Card) []string { return []string{c.Provider, c.Model} })
	if err != nil {
		return nil, err
	}
	out := &gatewayv1.ListModelCardsResponse{NextCursor: cursor}
	for _, card := range page {
		out.Models = append(out.Models, fromCard(card, now))
	}
	return out, conditional(ctx, out)
}

func serves(c catalog.Card, operation string) bool {
	for _, served := range c.Operations {
		if string(served) == operation {
			return true
		}
	}
	return false
}

// GetProviderCard returns one provider and all its models.
func (s *modelServer) GetProviderCard(ctx context.Context, m *gatewayv1.GetProviderCardRequest) (*gatewayv1.ProviderCard, error) {
	registry, now := s.catalog.Registry(), time.Now()
	p, ok := registry.Provider(m.GetProvider())
	if !ok {
		return nil, apierr.NotFound("provider")
	}
	out := &gatewayv1.ProviderCard{Provider: p.Name, DisplayName: p.DisplayName, Aliases: p.Aliases, Dialect: p.Dialect}
	for _, card := range registry.Cards(now) {
		if card.Provider == p.Name {
			out.Models = append(out.Models, fromCard(card, now))
		}
	}
	return out, conditional(ctx, out)
}

// ListRegistry returns a page of the models' lifecycles.
func (s *modelServer) ListRegistry(ctx context.Context, m *gatewayv1.ListRegistryRequest) (*gatewayv1.ListRegistryResponse, error) {
	registry, now := s.catalog.Registry(), time.Now()
	provider, err := canonicalIn(registry, m.GetProvider())
	if err != nil {
		return nil, err
	}
	var rows []catalog.Row
	for _, row := range registry.Rows() {
		if (provider == "" || provider == row.Provider) && (m.GetStatus() == "" || m.GetStatus() == string(row.Status(now))) {
			rows = append(rows, row)
		}
	}
	page, cursor, err := pageOf(newKeyset("registry", provider, m.GetStatus()), m, 2, rows, func(r catalog.Row) []string { return []string{r.Provider, r.Model} })
	if err != nil {
		return nil, err
	}
	out := &gatewayv1.ListRegistryResponse{NextCursor: cursor}
	for _, row := range page {
		out.Models = append(out.Models, fromRow(row, now))
	}
	return out, conditional(ctx, out)
}

// canonicalIn returns the provider's name of a filter, which may be empty or an alias.
func canonicalIn(r *catalog.Registry, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	p, ok := r.Provider(name)
	if !ok {
		return "", apierr.New(apierr.KindInvalid, routing.ReasonProviderUnknown, fmt.Sprintf("provider: no provider %s is configured", screen.Quote(name)))
	}
	return p.Name, nil
}

// DeprecateModel marks a model as deprecated and names its successor.
func (s *modelServer) DeprecateModel(ctx context.Context, m *gatewayv1.DeprecateModelRequest) (*gatewayv1.RegistryModel, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	if err := notBlank("successor", m.GetSuccessor(), "reason", m.GetReason()); err != nil {
		return nil, err
	}
	now := present()
	request := catalog.DeprecationRequest{
		Provider: m.GetProvider(), Model: m.GetModelId(), Successor: m.GetSuccessor(), Reason: m.GetReason(), By: actor(ctx), At: now,
	}
	if day := m.GetCutoffDate(); day != "" {
		var err error
		if request.Cutoff, err = time.Parse(time.DateOnly, day); err != nil {
			return nil, apierr.Invalid("cutoff_date", "must be an existing day such as 2026-01-31")
		}
	}
	row, err := s.catalog.Deprecate(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("deprecate: %w", err)
	}
	return fromRow(row, now), nil
}

// ListDeprecationNotifications returns a page of the models to move away from.
func (s *modelServer) ListDeprecationNotifications(
	ctx context.Context, m *gatewayv1.ListDeprecationNotificationsRequest,
) (*gatewayv1.ListDeprecationNotificationsResponse, error) {
	registry, now := s.catalog.Registry(), time.Now()
	provider, err := canonicalIn(registry, m.GetProvider())
	if err != nil {
		return nil, err
	}
	var notices []catalog.Notice
	for _, notice := range registry.Notices(now) {
		if provider == "" || provider == notice.Provider {
			notices = append(notices, notice)
		}
	}
	page, cursor, err := pageOf(newKeyset("notices", provider), m, 3, notices, func(n catalog.Notice) []string { return []string{n.Order(), n.Provider, n.Model} })
	if err != nil {
		return nil, err
	}
	out := &gatewayv1.ListDeprecationNotificationsResponse{NextCursor: cursor}
	for i := range page {
		out.Models = append(out.Models, fromNotice(&page[i], now))
	}
	return out, conditional(ctx, out)
}

func fromNotice(n *catalog.Notice, now time.Time) *gatewayv1.DeprecationNotification {
	out := &gatewayv1.DeprecationNotification{
		ModelId: n.Model, Provider: n.Provider, Status: string(n.Status(now)), Notice: "deprecated",
		Successor: toNullable(n.Successor), Reason: toNullable(n.Reason), CutoffDate: toDay(n.Cutoff),
	}
	if n.Expiring {
		out.Notice = "expiring"
	}
	if !n.Cutoff.IsZero() {
		out.DaysUntilCutoff = wrapperspb.Int32(int32(wholeDays(n.Cutoff.Sub(now))))
	}
	return out
}

// wholeDays rounds down, also below zero.
func wholeDays(d time.Duration) int { return int(math.Floor(d.Hours() / 24)) }

func toDay(t time.Time) *wrapperspb.StringValue {
	if t.IsZero() {
		return nil
	}
	return wrapperspb.String(t.Format(time.DateOnly))
}

func fromRow(r catalog.Row, now time.Time) *gatewayv1.RegistryModel {
	out := &gatewayv1.RegistryModel{
		ModelId: r.Model, Provider: r.Provider, Owner: r.Owner, Status: string(r.Status(now)), Successor: toNullable(r.Successor),
		CutoffDate: toDay(r.Cutoff), Reason: toNullable(r.Reason), DeprecatedAt: optionalTime(r.DeprecatedAt), DeprecatedBy: toNullable(r.By),
		Source: "catalog",
	}
	if r.By != "" {
		out.Source = "operator"
	}
	if !r.UpdatedAt.IsZero() {
		out.UpdatedAt = timestamppb.New(r.UpdatedAt)
	}
	return out
}

func fromCard(c catalog.Card, now time.Time) *gatewayv1.ModelCard {
	out := &gatewayv1.ModelCard{
		ModelId: c.Model, Provider: c.Provider, DisplayName: c.DisplayName, Aliases: c.Aliases, Owner: c.Owner,
		InputModalities: c.Input, OutputModalities: c.Output, Capabilities: c.Capabilities,
		ContextWindow: positive(max(c.Limits.Context, c.Limits.Input)), MaxOutputTokens: positive(c.Limits.Output), EmbeddingDimensions: positive(c.Dimensions),
		Status: string(c.Lifecycle.Status(now)), Successor: toNullable(c.Lifecycle.Successor), CutoffDate: toDay(c.Lifecycle.Cutoff), IsDefault: c.IsDefault,
		Identity: toNullable(c.Identity),
	}
	for _, operation := range c.Operations {
		out.Operations = append(out.Operations, string(operation))
	}
	if c.Price != nil {
		out.Price = fromPrice(c.Price)
	}
	return out
}

// positive returns null for 0, not known.
func positive(n int) *wrapperspb.Int32Value {
	if n <= 0 {
		return nil
	}
	return wrapperspb.Int32(int32(min(n, math.MaxInt32)))
}

func fromPrice(r *price.Row) *gatewayv1.ModelPrice {
	out := &gatewayv1.ModelPrice{Version: r.Version, Source: r.Source}
	if !r.Reviewed.IsZero() {
		out.ReviewedOn = r.Reviewed.Format(time.DateOnly)
	}
	cents := func(rate *price.Rate) *wrapperspb.DoubleValue {
		if rate == nil {
			return nil
		}
		return wrapperspb.Double(rate.CentsPerMillion())
	}
	out.InputCentsPerMillion, out.OutputCentsPerMillion = cents(r.Rates.Input).GetValue(), cents(r.Rates.Output).GetValue()
	out.CacheReadCentsPerMillion, out.CacheWriteCentsPerMillion = cents(r.Rates.CacheRead), cents(r.Rates.CacheWrite)
	if r.Rates.Image != nil {
		out.ImageCents = wrapperspb.Double(price.Pico(*r.Rates.Image).Cents())
	}
	return out
}
