package api

import (
	"context"
	"log/slog"

	"google.golang.org/protobuf/types/known/timestamppb"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/event"
)

// House is the part of package event that takes and lists the events of Switchyard's services.
type House interface {
	Emit(ctx context.Context, r event.HouseRequest) (event.HouseResult, error)
	List(ctx context.Context, organization string, after int64, limit int) ([]event.Recorded, error)
}

// houseEvents implements webhooksv1.HouseEventServiceServer.
type houseEvents struct {
	webhooksv1.UnimplementedHouseEventServiceServer

	house House
}

// EmitHouseEvent implements the method of that name.
func (s *houseEvents) EmitHouseEvent(ctx context.Context, r *webhooksv1.EmitHouseEventRequest) (*webhooksv1.EmitHouseEventResponse, error) {
	if err := refuseOwner(ctx, "events of services"); err != nil {
		return nil, err
	}
	organization, err := caller.From(ctx).OrganizationOf(r.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	if r.GetOccurredAt().CheckValid() != nil {
		return nil, apierr.Invalid("occurred_at", "must be a time between the years 1 and 9999")
	}
	result, err := s.house.Emit(ctx, event.HouseRequest{
		ID: r.GetEventId(), Organization: organization, Type: r.GetType(), Source: r.GetSource(), Subject: r.GetSubject(),
		Occurred: r.GetOccurredAt().AsTime(), Data: r.GetData(),
	})
	if err != nil {
		return nil, err
	}
	rpc.Annotate(ctx, slog.String("event_id", r.GetEventId()), slog.Int("matched", result.Deliveries))
	accepted(ctx, result.Deduplicated, false)
	return &webhooksv1.EmitHouseEventResponse{Matched: int32(result.Deliveries), Deduplicated: result.Deduplicated}, nil
}

// ListHouseEvents implements the method of that name.
func (s *houseEvents) ListHouseEvents(ctx context.Context, r *webhooksv1.ListHouseEventsRequest) (*webhooksv1.ListHouseEventsResponse, error) {
	if err := refuseOwner(ctx, "events of services"); err != nil {
		return nil, err
	}
	from := caller.From(ctx)
	var organization string
	if from.Role != caller.RoleOperator || from.Organization != "" || r.GetOrganizationId() != "" {
		var err error
		if organization, err = from.OrganizationOf(r.GetOrganizationId()); err != nil {
			return nil, err
		}
	}
	after, err := positionOf(r.GetCursor())
	if err != nil {
		return nil, err
	}
	recorded, err := s.house.List(ctx, organization, after, limitOf(r))
	if err != nil {
		return nil, err
	}
	response := &webhooksv1.ListHouseEventsResponse{Events: make([]*webhooksv1.HouseEvent, len(recorded))}
	for i, e := range recorded {
		response.Events[i] = &webhooksv1.HouseEvent{
			Cursor: cursorOf(e.Sequence), OrganizationId: e.Organization, OwnerId: e.Owner, CloudEvent: e.CloudEvent,
			RecordedAt: timestamppb.New(e.RecordedAt),
		}
	}
	return response, nil
}
