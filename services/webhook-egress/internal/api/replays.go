package api

import (
	"context"
	"log/slog"
	"net/http"

	"google.golang.org/protobuf/types/known/timestamppb"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/replay"
)

// Replayer is the part of package replay that the API uses.
type Replayer interface {
	Create(ctx context.Context, r replay.Request) (replay.Created, error)
	Get(ctx context.Context, organization, owner, id string) (replay.Replay, error)
	List(ctx context.Context, organization, owner string, before delivery.ID, limit int) ([]replay.Replay, delivery.ID, error)
	Cancel(ctx context.Context, organization, owner, id string) (replay.Replay, error)
}

// replays implements webhooksv1.ReplayServiceServer.
type replays struct {
	webhooksv1.UnimplementedReplayServiceServer
	tenant

	replayer Replayer
}

// CreateReplay implements the method of that name.
func (s *replays) CreateReplay(ctx context.Context, r *webhooksv1.CreateReplayRequest) (*webhooksv1.Replay, error) {
	organization, owner, key, err := s.keyedScope(ctx, r)
	if err != nil {
		return nil, err
	}
	f := r.GetFilter()
	request := replay.Request{
		Organization: organization, Owner: owner, Key: key, DryRun: r.GetDryRun(), MaxAttempts: intOf(r.MaxAttempts),
		Deadline: timeOf(r.GetDeadlineAt()), RatePerSecond: r.GetRatePerSecond(),
		Filter: replay.Filter{
			DeliveryIDs: f.GetDeliveryIds(), Statuses: statusesOf(f.GetStatus()), EndpointID: f.GetEndpointId(),
			EventType: f.GetEventType(), Host: f.GetHost(),
			CreatedFrom: timeOf(f.GetCreatedAfter()), CreatedTo: timeOf(f.GetCreatedBefore()),
		},
	}
	if !request.DryRun {
		request.Count = takeCount(ctx)
	}
	created, err := s.replayer.Create(ctx, request)
	if err != nil {
		return nil, err
	}
	if !created.DryRun && !created.Deduplicated {
		rpc.Annotate(ctx, slog.String("replay_id", created.ID.String()))
		rpc.SetStatus(ctx, http.StatusAccepted)
	}
	return replayOf(&created.Replay), nil
}

// GetReplay implements the method of that name.
func (s *replays) GetReplay(ctx context.Context, r *webhooksv1.GetReplayRequest) (*webhooksv1.Replay, error) {
	organization, owner, err := s.scope(ctx, r)
	if err != nil {
		return nil, err
	}
	job, err := s.replayer.Get(ctx, organization, owner, r.GetId())
	if err != nil {
		return nil, err
	}
	return replayOf(&job), nil
}

// ListReplays implements the method of that name.
func (s *replays) ListReplays(ctx context.Context, r *webhooksv1.ListReplaysRequest) (*webhooksv1.ListReplaysResponse, error) {
	organization, owner, err := s.scope(ctx, r)
	if err != nil {
		return nil, err
	}
	before, err := replayCursor.decode(r.GetCursor())
	if err != nil {
		return nil, err
	}
	page, next, err := s.replayer.List(ctx, organization, owner, before, limitOf(r))
	if err != nil {
		return nil, err
	}
	response := &webhooksv1.ListReplaysResponse{Replays: make([]*webhooksv1.Replay, len(page)), NextCursor: replayCursor.encode(next)}
	for i := range page {
		response.Replays[i] = replayOf(&page[i])
	}
	return response, nil
}

// CancelReplay implements the method of that name.
func (s *replays) CancelReplay(ctx context.Context, r *webhooksv1.CancelReplayRequest) (*webhooksv1.Replay, error) {
	organization, owner, err := s.scope(ctx, r)
	if err != nil {
		return nil, err
	}
	job, err := s.replayer.Cancel(ctx, organization, owner, r.GetId())
	if err != nil {
		return nil, err
	}
	return replayOf(&job), nil
}

func replayOf(r *replay.Replay) *webhooksv1.Replay {
	id := ""
	if r.ID != (delivery.ID{}) {
		id = r.ID.String()
	}
	filter := &webhooksv1.ReplayFilter{
		DeliveryIds: r.Filter.DeliveryIDs, EndpointId: r.Filter.EndpointID, EventType: r.Filter.EventType, Host: r.Filter.Host,
		CreatedAfter: timeOrNull(r.Filter.CreatedFrom), CreatedBefore: timeOrNull(r.Filter.CreatedTo),
	}
	for _, status := range r.Filter.Statuses {
		filter.Status = append(filter.Status, string(status))
	}
	return &webhooksv1.Replay{
		ReplayId: id, OrganizationId: r.Organization, OwnerId: textOrNull(r.Owner), Filter: filter, DryRun: r.DryRun,
		Status: string(r.Status), Matched: int32(r.Matched), Replayed: int32(r.Replayed), Skipped: int32(r.Skipped),
		Error: textOrNull(r.Error), CreatedAt: timestamppb.New(r.Created), UpdatedAt: timestamppb.New(r.Updated),
		FinishedAt: timeOrNull(r.Finished),
	}
}
