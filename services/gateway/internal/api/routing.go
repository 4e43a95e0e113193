package api

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/routing"
)

// Policies are the routing policy in force.
type Policies interface {
	// Reload reads it again; see routing.Reloaded.
	Reload(ctx context.Context) (routing.Reloaded, error)
}

// routingServer is the operators' control of who serves.
type routingServer struct {
	gatewayv1.UnimplementedRoutingServiceServer

	policies Policies
}

// ReloadPolicy reads the policy again.
func (s *routingServer) ReloadPolicy(ctx context.Context, _ *gatewayv1.ReloadPolicyRequest) (*gatewayv1.ReloadPolicyResponse, error) {
	done, err := s.policies.Reload(ctx)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ReloadPolicyResponse{
		Changed: done.Changed, PolicyVersion: done.Now.Hash, PreviousPolicyVersion: done.Before.Hash,
		LoadedAt: timestamppb.New(done.Now.LoadedAt), Warnings: done.Warnings, Changes: done.Changes,
		Providers: done.Now.Providers, Models: int32(done.Now.Models),
	}, nil
}
