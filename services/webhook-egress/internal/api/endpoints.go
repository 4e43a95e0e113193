package api

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
)

// Registry is the part of package endpoint that the API uses.
type Registry interface {
	Register(ctx context.Context, r endpoint.Registration) (endpoint.Endpoint, secret.Value, error)
	Get(ctx context.Context, scope endpoint.Scope, id string) (endpoint.Endpoint, error)
	List(ctx context.Context, f endpoint.Filter, before delivery.ID, limit int) ([]endpoint.Endpoint, delivery.ID, error)
	Update(ctx context.Context, scope endpoint.Scope, id string, u endpoint.Update) (endpoint.Endpoint, error)
	RotateSecret(ctx context.Context, scope endpoint.Scope, id string, overlap *time.Duration) (endpoint.Endpoint, secret.Value, error)
	Delete(ctx context.Context, scope endpoint.Scope, id string) error
	Test(ctx context.Context, scope endpoint.Scope, id string, t endpoint.Test) (delivery.Record, *delivery.Attempt, error)
}

// endpoints implements webhooksv1.EndpointServiceServer.
type endpoints struct {
	webhooksv1.UnimplementedEndpointServiceServer
	tenant

	registry Registry
}

func (s *endpoints) scopeOf(ctx context.Context, r scoped) (scope endpoint.Scope, err error) {
	scope.Organization, scope.Owner, err = s.scope(ctx, r)
	return scope, err
}

// RegisterEndpoint implements the method of that name.
func (s *endpoints) RegisterEndpoint(ctx context.Context, r *webhooksv1.RegisterEndpointRequest) (*webhooksv1.Endpoint, error) {
	scope, err := s.scopeOf(ctx, r)
	if err != nil {
		return nil, err
	}
	authentication, err := authOf(r.GetAuth(), time.Now())
	if err != nil {
		return nil, err
	}
	e, generated, err := s.registry.Register(ctx, endpoint.Registration{
		Scope: scope, URL: r.GetUrl(), EventTypes: r.GetEventTypes(), SigningMode: r.GetSigningMode(),
		Secret: secret.New(r.GetSigningSecret()), RatePerSecond: r.GetRateLimitPerSecond(), Description: r.GetDescription(),
		GenerateSecret: r.GetGenerateSecret(), Headers: r.GetCustomHeaders(), Auth: authentication, Signatures: r.GetSignatures(),
		Filter: r.GetFilter(),
	})
	if err != nil {
		return nil, err
	}
	rpc.Annotate(ctx, slog.String("endpoint_id", e.ID.String()))
	rpc.SetStatus(ctx, http.StatusCreated)
	return withSecret(&e, generated), nil
}

// ListEndpoints implements the method of that name.
func (s *endpoints) ListEndpoints(ctx context.Context, r *webhooksv1.ListEndpointsRequest) (*webhooksv1.ListEndpointsResponse, error) {
	organization, owner, every, err := s.listScope(ctx, r)
	if err != nil {
		return nil, err
	}
	before, err := endpointCursor.decode(r.GetCursor())
	if err != nil {
		return nil, err
	}
	filter := endpoint.Filter{Scope: endpoint.Scope{Organization: organization, Owner: owner}, Every: every, Active: r.Active, EventType: r.GetEventType()}
	page, next, err := s.registry.List(ctx, filter, before, limitOf(r))
	if err != nil {
		return nil, err
	}
	response := &webhooksv1.ListEndpointsResponse{
		Endpoints: make([]*webhooksv1.Endpoint, len(page)), NextCursor: endpointCursor.encode(next),
	}
	for i := range page {
		response.Endpoints[i] = endpointOf(&page[i])
	}
	return response, nil
}

// GetEndpoint implements the method of that name.
func (s *endpoints) GetEndpoint(ctx context.Context, r *webhooksv1.GetEndpointRequest) (*webhooksv1.Endpoint, error) {
	scope, err := s.scopeOf(ctx, r)
	if err != nil {
		return nil, err
	}
	e, err := s.registry.Get(ctx, scope, r.GetId())
	if err != nil {
		return nil, err
	}
	return endpointOf(&e), nil
}

// UpdateEndpoint implements the method of that name.
func (s *endpoints) UpdateEndpoint(ctx context.Context, r *webhooksv1.UpdateEndpointRequest) (*webhooksv1.Endpoint, error) {
	scope, err := s.scopeOf(ctx, r)
	if err != nil {
		return nil, err
	}
	update := endpoint.Update{
		URL: r.Url, EventTypes: r.GetEventTypes(), Active: r.Active, Secret: secret.New(r.GetSigningSecret()),
		RatePerSecond: r.RateLimitPerSecond, Description: r.Description, Overlap: secondsOrNil(r.SecretOverlapSeconds),
		Headers: r.GetCustomHeaders(), Signatures: r.GetSignatures(), Filter: r.Filter,
	}
	if update.Auth, err = authOf(r.GetAuth(), time.Now()); err != nil {
		return nil, err
	}
	e, err := s.registry.Update(ctx, scope, r.GetId(), update)
	if err != nil {
		return nil, err
	}
	return endpointOf(&e), nil
}

// RotateEndpointSecret implements the method of that name.
func (s *endpoints) RotateEndpointSecret(ctx context.Context, r *webhooksv1.RotateEndpointSecretRequest) (*webhooksv1.Endpoint, error) {
	scope, err := s.scopeOf(ctx, r)
	if err != nil {
		return nil, err
	}
	e, generated, err := s.registry.RotateSecret(ctx, scope, r.GetId(), secondsOrNil(r.OverlapSeconds))
	if err != nil {
		return nil, err
	}
	return withSecret(&e, generated), nil
}

// DeleteEndpoint implements the method of that name.
func (s *endpoints) DeleteEndpoint(ctx context.Context, r *webhooksv1.DeleteEndpointRequest) (*emptypb.Empty, error) {
	scope, err := s.scopeOf(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := s.registry.Delete(ctx, scope, r.GetId()); err != nil {
		return nil, err
	}
	rpc.SetStatus(ctx, http.StatusNoContent)
	return &emptypb.Empty{}, nil
}

// TestEndpoint implements the method of that name.
func (s *endpoints) TestEndpoint(ctx context.Context, r *webhooksv1.TestEndpointRequest) (*webhooksv1.TestEndpointResponse, error) {
	scope, err := s.scopeOf(ctx, r)
	if err != nil {
		return nil, err
	}
	record, attempt, err := s.registry.Test(ctx, scope, r.GetId(), endpoint.Test{
		EventType: r.GetEventType(), Payload: r.GetPayload(), Traceparent: traceparent(ctx),
	})
	if err != nil {
		return nil, err
	}
	response := &webhooksv1.TestEndpointResponse{Delivery: recordOf(record)}
	if attempt != nil {
		response.Attempt = attemptOf(record.ID.String(), attempt)
	}
	return response, nil
}

func endpointOf(e *endpoint.Endpoint) *webhooksv1.Endpoint {
	previous, ends := earlierEnds(e, time.Now())
	return &webhooksv1.Endpoint{
		EndpointId: e.ID.String(), OrganizationId: e.Organization, OwnerId: textOrNull(e.Owner), Url: e.URL,
		EventTypes: e.EventTypes, Active: e.Active, SigningMode: e.SigningMode, CreatedAt: timestamppb.New(e.Created),
		UpdatedAt: timestamppb.New(e.Updated), RateLimitPerSecond: e.RatePerSecond, Description: e.Description,
		PreviousSecretExpiresAt: previous, EarlierSecretsExpireAt: ends, DisabledReason: textOrNull(e.DisabledReason),
		DisabledAt: timeOrNull(e.DisabledAt), FailingSince: timeOrNull(e.FailingSince),
		CustomHeaderNames: slices.Sorted(maps.Keys(e.Headers)), Auth: authInfoOf(e.Auth), Signatures: e.Signatures, Filter: e.Filter,
		Warnings: e.Warnings, Status: string(e.Status()),
	}
}

// withSecret returns an endpoint with its generated secret, if there is one: no other response holds it.
func withSecret(e *endpoint.Endpoint, generated secret.Value) *webhooksv1.Endpoint {
	response := endpointOf(e)
	response.GeneratedSecret = textOrNull(generated.Reveal())
	return response
}

func secondsOrNil(n *int32) *time.Duration {
	if n == nil {
		return nil
	}
	return new(time.Duration(*n) * time.Second)
}

// earlierEnds returns the ends, after now, of the secret that was replaced last (nil for none) and of all that were.
func earlierEnds(e *endpoint.Endpoint, now time.Time) (previous *timestamppb.Timestamp, all []*timestamppb.Timestamp) {
	for i, earlier := range e.Earlier {
		if !now.Before(earlier.Until) {
			continue
		}
		all = append(all, timestamppb.New(earlier.Until))
		if i == 0 {
			previous = all[0]
		}
	}
	return previous, all
}
