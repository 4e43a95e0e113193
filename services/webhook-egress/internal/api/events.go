package api

import (
	"context"
	"log/slog"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/event"
)

// Emitter is the part of package event that the API uses.
type Emitter interface {
	Emit(ctx context.Context, r event.Request) (event.Result, error)
}

// events implements webhooksv1.EventServiceServer.
type events struct {
	webhooksv1.UnimplementedEventServiceServer
	tenant

	emitter Emitter
}

// EmitEvent implements the method of that name.
func (s *events) EmitEvent(ctx context.Context, r *webhooksv1.EmitEventRequest) (*webhooksv1.EmitEventResponse, error) {
	organization, owner, key, err := s.keyedScope(ctx, r)
	if err != nil {
		return nil, err
	}
	result, err := s.emitter.Emit(ctx, event.Request{
		Asked: delivery.Asked{
			Payload: r.GetPayload(), Headers: r.GetCustomHeaders(), MaxAttempts: intOf(r.MaxAttempts), Deadline: timeOf(r.GetDeadlineAt()),
			OrderingKey: r.GetOrderingKey(),
		},
		Organization: organization, Owner: owner, EventType: r.GetEventType(), Key: key, Traceparent: traceparent(ctx),
		Count: takeCount(ctx),
	})
	if err != nil {
		return nil, err
	}
	rpc.Annotate(ctx, slog.String("event_id", result.ID.String()), slog.Int("matched", len(result.Deliveries)))
	accepted(ctx, result.Deduplicated, result.Mismatch)
	response := &webhooksv1.EmitEventResponse{
		EventId: result.ID.String(), Matched: int32(len(result.Deliveries)), SkippedPaused: int32(result.SkippedPaused),
		SkippedFiltered: int32(result.SkippedFiltered),
		Deduplicated:    result.Deduplicated, Deliveries: make([]*webhooksv1.FannedDelivery, len(result.Deliveries)),
	}
	for i, d := range result.Deliveries {
		response.Deliveries[i] = &webhooksv1.FannedDelivery{DeliveryId: d.Delivery.String(), EndpointId: d.Endpoint.String(), FilterError: d.FilterError}
	}
	for _, w := range result.Warnings {
		response.Warnings = append(response.Warnings, &webhooksv1.SchemaViolation{Pointer: w.Pointer, Rule: w.Rule})
	}
	return response, nil
}
