package api

import (
	"context"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// Deliverer is the part of package delivery that the API uses.
type Deliverer interface {
	Enqueue(ctx context.Context, r delivery.Request) (delivery.Accepted, error)
	EnqueueBatch(ctx context.Context, requests []delivery.Request, first int) ([]delivery.Accepted, error)
	Get(ctx context.Context, organization, owner, id string, withBody bool) (delivery.Record, error)
	List(ctx context.Context, f delivery.Filter, before delivery.ID, limit int) ([]delivery.Record, delivery.ID, error)
	Attempts(ctx context.Context, organization, owner, id string, after int64, limit int) ([]delivery.Attempt, int64, error)
	Resend(ctx context.Context, r delivery.ResendRequest) (record delivery.Record, deduplicated bool, err error)
	Cancel(ctx context.Context, organization, owner, id string) (delivery.Record, error)
}

// deliveries implements webhooksv1.DeliveryServiceServer.
type deliveries struct {
	webhooksv1.UnimplementedDeliveryServiceServer
	tenant

	deliverer Deliverer
}

// GetDelivery implements the method of that name.
func (s *deliveries) GetDelivery(ctx context.Context, r *webhooksv1.GetDeliveryRequest) (*webhooksv1.DeliveryRecord, error) {
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

// ListDeliveries implements the method of that name.
func (s *deliveries) ListDeliveries(ctx context.Context, r *webhooksv1.ListDeliveriesRequest) (*webhooksv1.ListDeliveriesResponse, error) {
	organization, owner, every, err := s.listScope(ctx, r)
	if err != nil {
		return nil, err
	}
	before, err := deliveryCursor.decode(r.GetCursor())
	if err != nil {
		return nil, err
	}
	filter := delivery.Filter{
		Organization: organization, Every: every, Owner: owner, Statuses: statusesOf(r.GetStatus()), EndpointID: r.GetEndpointId(),
		EventID: r.GetEventId(), EventType: r.GetEventType(), Host: r.GetHost(),
		CreatedFrom: timeOf(r.GetCreatedAfter()), CreatedTo: timeOf(r.GetCreatedBefore()),
	}
	page, next, err := s.deliverer.List(ctx, filter, before, limitOf(r))
	if err != nil {
		return nil, err
	}
	response := &webhooksv1.ListDeliveriesResponse{
		Deliveries: make([]*webhooksv1.DeliveryRecord, len(page)), NextCursor: deliveryCursor.encode(next),
	}
	for i := range page {
		response.Deliveries[i] = recordOf(page[i])
	}
	return response, nil
}

// ListAttempts implements the method of that name.
func (s *deliveries) ListAttempts(ctx context.Context, r *webhooksv1.ListAttemptsRequest) (*webhooksv1.ListAttemptsResponse, error) {
	organization, owner, err := s.scope(ctx, r)
	if err != nil {
		return nil, err
	}
	after, err := positionOf(r.GetCursor())
	if err != nil {
		return nil, err
	}
	page, next, err := s.deliverer.Attempts(ctx, organization, owner, r.GetId(), after, limitOf(r))
	if err != nil {
		return nil, err
	}
	response := &webhooksv1.ListAttemptsResponse{Attempts: make([]*webhooksv1.Attempt, len(page)), NextCursor: cursorOf(next)}
	for i := range page {
		response.Attempts[i] = attemptOf(r.GetId(), &page[i])
	}
	return response, nil
}

// ResendDelivery implements the method of that name.
func (s *deliveries) ResendDelivery(ctx context.Context, r *webhooksv1.ResendDeliveryRequest) (*webhooksv1.DeliveryRecord, error) {
	organization, owner, key, err := s.keyedScope(ctx, r)
	if err != nil {
		return nil, err
	}
	record, deduplicated, err := s.deliverer.Resend(ctx, delivery.ResendRequest{
		Organization: organization, Owner: owner, ID: r.GetId(), MaxAttempts: intOf(r.MaxAttempts),
		Deadline: timeOf(r.GetDeadlineAt()), Key: key,
	})
	if err != nil {
		return nil, err
	}
	accepted(ctx, deduplicated, false)
	return recordOf(record), nil
}

// CancelDelivery implements the method of that name.
func (s *deliveries) CancelDelivery(ctx context.Context, r *webhooksv1.CancelDeliveryRequest) (*webhooksv1.DeliveryRecord, error) {
	organization, owner, err := s.scope(ctx, r)
	if err != nil {
		return nil, err
	}
	record, err := s.deliverer.Cancel(ctx, organization, owner, r.GetId())
	if err != nil {
		return nil, err
	}
	return recordOf(record), nil
}
