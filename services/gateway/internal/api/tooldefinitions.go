package api

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/caller"
)

// definitionBytes is the size of the definitions of a page, after which it ends.
const definitionBytes = 1 << 20

// ListToolDefinitions returns a page of a server's tools.
func (s *toolServer) ListToolDefinitions(
	ctx context.Context, m *gatewayv1.ListToolDefinitionsRequest,
) (*gatewayv1.ListToolDefinitionsResponse, error) {
	key, err := toolKey(ctx, m)
	if err != nil {
		return nil, err
	}
	server, err := s.Servers.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	page := newKeyset("tool definitions", server.Organization, server.ID, m.GetStatus())
	after, err := page.read(m.GetCursor(), 1)
	if err != nil {
		return nil, err
	}
	limit := pageSize(m.GetLimit())
	found, err := s.Definitions.List(ctx, server.Key(), definition.Status(m.GetStatus()), after[0], limit+1)
	if err != nil {
		return nil, err
	}
	out, size := &gatewayv1.ListToolDefinitionsResponse{}, 0
	for i := range found {
		if i == limit || size > definitionBytes {
			out.NextCursor = page.cursor(found[i-1].Name)
			break
		}
		out.Tools = append(out.Tools, fromToolDefinition(&server, &found[i]))
		size += len(found[i].Text)
		if found[i].Before != nil {
			size += len(found[i].Before.Text)
		}
	}
	return out, nil
}

// ReviewToolDefinition decides on the definition of a tool.
func (s *toolServer) ReviewToolDefinition(ctx context.Context, m *gatewayv1.ReviewToolDefinitionRequest) (*gatewayv1.ToolDefinition, error) {
	server, err := s.own(ctx, m)
	if err == nil {
		err = storable(m)
	}
	if err != nil {
		return nil, err
	}
	reviewed, err := s.Definitions.Review(ctx, server.Key(), m.GetTool(), m.GetDigest(), toolReview(ctx, m))
	if err != nil {
		return nil, err
	}
	return fromToolDefinition(&server, &reviewed), nil
}

// ReviewToolServer decides on all definitions of a server that wait.
func (s *toolServer) ReviewToolServer(ctx context.Context, m *gatewayv1.ReviewToolServerRequest) (*gatewayv1.ToolServer, error) {
	server, err := s.own(ctx, m)
	if err == nil {
		err = storable(m)
	}
	if err == nil {
		err = s.Definitions.ReviewAll(ctx, server.Key(), m.GetListingDigest(), toolReview(ctx, m))
	}
	if err != nil {
		return nil, err
	}
	return s.one(ctx, m, &server)
}

func toolReview(ctx context.Context, m interface {
	GetDecision() string
	GetReviewedBy() string
	GetReason() string
},
) *definition.Review {
	return &definition.Review{
		Verdict: definition.Verdict(m.GetDecision()), By: m.GetReviewedBy(), Reason: m.GetReason(), User: caller.From(ctx).User,
	}
}

func fromToolDefinition(s *toolserver.Server, d *definition.Reviewed) *gatewayv1.ToolDefinition {
	out := &gatewayv1.ToolDefinition{
		Tool: d.Name, Digest: d.Digest.String(), Status: string(d.Status), Present: d.Present,
		FirstSeenAt: timestamppb.New(d.FirstSeenAt), SeenAt: optionalTime(d.SeenAt), ReviewedBy: toNullable(d.ReviewedBy),
		ReviewedAt: optionalTime(d.ReviewedAt), ReviewReason: toNullable(d.Reason), Definition: d.Text, InvisibleTextAt: definition.Invisible(d.Text),
	}
	if s.Exposable(d.Name) {
		out.ExposedName = wrapperspb.String(s.Exposed(d.Name))
	}
	if d.Before == nil {
		return out
	}
	out.ApprovedDefinition, out.ApprovedDigest = d.Before.Text, wrapperspb.String(d.Before.Digest.String())
	for _, difference := range definition.Differences(d.Before.Text, d.Text) {
		out.Differences = append(out.Differences, &gatewayv1.ToolDifference{
			Path: difference.Path, Approved: toNullable(difference.Before), Present: toNullable(difference.After),
		})
	}
	return out
}
