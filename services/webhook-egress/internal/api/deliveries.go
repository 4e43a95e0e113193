// Package api is the front of webhook-egress: it implements the contract's
// services over the domain, settles who a request acts for, and translates
// between messages and domain types.
package api

import (
	"context"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/propagation"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// HeaderMismatch tells a caller that its idempotency key was first used for
// another request.
const HeaderMismatch = "Idempotency-Mismatch"

// Page sizes of lists.
const defaultPage = 50

// Deliverer is what the API needs of package delivery.
type Deliverer interface {
	Enqueue(ctx context.Context, r delivery.Request) (delivery.Accepted, error)
	Get(ctx context.Context, organization, owner, id string, withBody bool) (delivery.Record, error)
	Attempts(ctx context.Context, organization, owner, id string, after int64, limit int) ([]delivery.Attempt, int64, error)
}

// Deliveries implements webhooksv1.DeliveryServiceServer.
type Deliveries struct {
	webhooksv1.UnimplementedDeliveryServiceServer

	deliverer Deliverer
	// organization is whom a request acts for that names nobody.
	organization string
}

// NewDeliveries returns the service; organization is the default one, which may
// be empty for none.
func NewDeliveries(deliverer Deliverer, organization string) *Deliveries {
	return &Deliveries{deliverer: deliverer, organization: organization}
}

// Enqueue implements the method of that name.
func (s *Deliveries) Enqueue(ctx context.Context, r *webhooksv1.EnqueueRequest) (*webhooksv1.EnqueueAccepted, error) {
	organization, owner, err := s.scope(ctx, r)
	if err != nil {
		return nil, err
	}
	key, err := caller.From(ctx).IdempotencyKeyOf(r.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	request := requestOf(r)
	request.Organization, request.Owner, request.Key = organization, owner, key
	request.Traceparent = traceparent(ctx)
	accepted, err := s.deliverer.Enqueue(ctx, request)
	if err != nil {
		return nil, err
	}
	rpc.Annotate(ctx, slog.String("delivery_id", accepted.ID.String()), slog.Bool("deduplicated", accepted.Deduplicated))
	if accepted.Mismatch {
		rpc.SetHeader(ctx, HeaderMismatch, "true")
	}
	if !accepted.Deduplicated {
		rpc.SetStatus(ctx, http.StatusAccepted)
	}
	return acceptedOf(accepted), nil
}

// GetDelivery implements the method of that name.
func (s *Deliveries) GetDelivery(ctx context.Context, r *webhooksv1.GetDeliveryRequest) (*webhooksv1.DeliveryRecord, error) {
	organization, owner, err := s.scope(ctx, r)
	if err != nil {
		return nil, err
	}
	record, err := s.deliverer.Get(ctx, organization, owner, r.GetId(), r.GetIncludePayload())
	if err != nil {
		return nil, err
	}
	return recordOf(record), nil
}

// ListAttempts implements the method of that name.
func (s *Deliveries) ListAttempts(ctx context.Context, r *webhooksv1.ListAttemptsRequest) (*webhooksv1.ListAttemptsResponse, error) {
	organization, owner, err := s.scope(ctx, r)
	if err != nil {
		return nil, err
	}
	after, err := positionOf(r.GetCursor())
	if err != nil {
		return nil, err
	}
	limit := int(r.GetLimit())
	if limit == 0 {
		limit = defaultPage
	}
	page, next, err := s.deliverer.Attempts(ctx, organization, owner, r.GetId(), after, limit)
	if err != nil {
		return nil, err
	}
	response := &webhooksv1.ListAttemptsResponse{Attempts: make([]*webhooksv1.Attempt, len(page)), NextCursor: cursorOf(next)}
	for i := range page {
		response.Attempts[i] = attemptOf(r.GetId(), &page[i])
	}
	return response, nil
}

// scoped is a request that may name its organization and owner.
type scoped interface {
	GetOrganizationId() string
	GetOwnerId() string
}

// scope settles whom a request acts for, by its fields and the caller's headers.
func (s *Deliveries) scope(ctx context.Context, r scoped) (organization, owner string, err error) {
	c := caller.From(ctx)
	if organization, err = c.OrganizationOr(r.GetOrganizationId(), s.organization); err != nil {
		return "", "", err
	}
	if owner, err = c.OwnerOf(r.GetOwnerId()); err != nil {
		return "", "", err
	}
	return organization, owner, nil
}

// traceparent is the trace that a delivery's attempts continue; empty for none.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
