package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"google.golang.org/protobuf/types/known/emptypb"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/eventtype"
)

// EventTypes is the part of package eventtype that the API uses.
type EventTypes interface {
	Put(ctx context.Context, organization string, t eventtype.Type) (put eventtype.Type, added bool, err error)
	Get(ctx context.Context, organization, name string) (eventtype.Type, error)
	List(ctx context.Context, organization string, origin eventtype.Origin, after string, limit int) ([]eventtype.Summary, string, error)
	Delete(ctx context.Context, organization, name string) error
}

// eventTypes implements webhooksv1.EventTypeServiceServer.
type eventTypes struct {
	webhooksv1.UnimplementedEventTypeServiceServer
	tenant

	types EventTypes
}

func (s *eventTypes) organizationOf(ctx context.Context, r interface{ GetOrganizationId() string }) (string, error) {
	return caller.From(ctx).OrganizationOr(r.GetOrganizationId(), string(s.tenant))
}

// changed is organizationOf for changes, which a caller on behalf of an owner may not make: the types are the
// organization's, and a schema refuses the events of all owners.
func (s *eventTypes) changed(ctx context.Context, r interface{ GetOrganizationId() string }) (string, error) {
	if err := refuseOwner(ctx, "changes of event types"); err != nil {
		return "", err
	}
	return s.organizationOf(ctx, r)
}

// slash replaces the only character that a path keeps encoded within a segment.
var slash = strings.NewReplacer("%2F", "/", "%2f", "/")

// PutEventType implements the method of that name.
func (s *eventTypes) PutEventType(ctx context.Context, r *webhooksv1.PutEventTypeRequest) (*webhooksv1.EventType, error) {
	organization, err := s.changed(ctx, r)
	if err != nil {
		return nil, err
	}
	t, added, err := s.types.Put(ctx, organization, eventtype.Type{
		Name: slash.Replace(r.GetType()), Description: r.GetDescription(), Schema: r.GetSchema(),
		Validation: eventtype.Validation(r.GetValidation()), Examples: r.GetExamples(), Deprecated: r.GetDeprecated(),
	})
	if err != nil {
		return nil, err
	}
	rpc.Annotate(ctx, slog.String("event_type", t.Name))
	if added {
		rpc.SetStatus(ctx, http.StatusCreated)
	}
	return eventTypeOf(t), nil
}

// GetEventType implements the method of that name.
func (s *eventTypes) GetEventType(ctx context.Context, r *webhooksv1.GetEventTypeRequest) (*webhooksv1.EventType, error) {
	organization, err := s.organizationOf(ctx, r)
	if err != nil {
		return nil, err
	}
	t, err := s.types.Get(ctx, organization, slash.Replace(r.GetType()))
	if err != nil {
		return nil, err
	}
	return eventTypeOf(t), nil
}

// ListEventTypes implements the method of that name.
func (s *eventTypes) ListEventTypes(ctx context.Context, r *webhooksv1.ListEventTypesRequest) (*webhooksv1.ListEventTypesResponse, error) {
	organization, err := s.organizationOf(ctx, r)
	if err != nil {
		return nil, err
	}
	after, err := eventTypeCursor.decodeText(r.GetCursor())
	if err != nil {
		return nil, err
	}
	page, next, err := s.types.List(ctx, organization, eventtype.Origin(r.GetOrigin()), after, limitOf(r))
	if err != nil {
		return nil, err
	}
	response := &webhooksv1.ListEventTypesResponse{
		EventTypes: make([]*webhooksv1.EventTypeSummary, len(page)), NextCursor: eventTypeCursor.encodeText(next),
	}
	for i, t := range page {
		response.EventTypes[i] = &webhooksv1.EventTypeSummary{
			Type: t.Name, Description: t.Description, Validation: string(t.Validation), HasSchema: t.HasSchema,
			Deprecated: t.Deprecated, Origin: string(originOf(t.House)), CreatedAt: timeOrNull(t.Created), UpdatedAt: timeOrNull(t.Updated),
		}
	}
	return response, nil
}

// DeleteEventType implements the method of that name.
func (s *eventTypes) DeleteEventType(ctx context.Context, r *webhooksv1.DeleteEventTypeRequest) (*emptypb.Empty, error) {
	organization, err := s.changed(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := s.types.Delete(ctx, organization, slash.Replace(r.GetType())); err != nil {
		return nil, err
	}
	rpc.SetStatus(ctx, http.StatusNoContent)
	return &emptypb.Empty{}, nil
}

func eventTypeOf(t eventtype.Type) *webhooksv1.EventType {
	return &webhooksv1.EventType{
		Type: t.Name, Description: t.Description, Schema: t.Schema, Validation: string(t.Validation), Examples: t.Examples,
		Deprecated: t.Deprecated, Origin: string(originOf(t.House)), CreatedAt: timeOrNull(t.Created), UpdatedAt: timeOrNull(t.Updated),
	}
}

func originOf(house bool) eventtype.Origin {
	if house {
		return eventtype.OfHouse
	}
	return eventtype.OfOrganization
}
