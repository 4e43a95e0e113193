package api

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/cache"
	"switchyard.dev/services/platform/caller"
)

// Purger erases cached answers; see package cache.
type Purger interface {
	Purge(ctx context.Context, organization string) (cache.Purged, error)
}

// organizationServer serves what concerns an organization as a whole.
type organizationServer struct {
	gatewayv1.UnimplementedOrganizationServiceServer

	answers Purger
}

// PurgePromptCache erases what is cached of an organization.
func (s *organizationServer) PurgePromptCache(
	ctx context.Context, m *gatewayv1.PurgePromptCacheRequest,
) (*gatewayv1.PurgePromptCacheResponse, error) {
	organization, err := caller.From(ctx).OrganizationOf(m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	purged, err := s.answers.Purge(ctx, organization)
	if err != nil {
		return nil, fmt.Errorf("purge cache: %w", err)
	}
	return &gatewayv1.PurgePromptCacheResponse{
		OrganizationId: organization, Purged: int32(purged.Count), PurgedAt: timestamppb.New(purged.At),
	}, nil
}
