package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"google.golang.org/grpc"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

const (
	// maxStream is how many deliveries one stream may carry.
	maxStream = 10_000
	// streamItems and streamBytes bound what is committed together: a batch is committed when it reaches either.
	streamItems, streamBytes = 200, 4 << 20
)

// EnqueueBatch implements the method of that name.
func (s *deliveries) EnqueueBatch(ctx context.Context, r *webhooksv1.EnqueueBatchRequest) (*webhooksv1.EnqueueBatchResponse, error) {
	if err := noSharedKey(ctx); err != nil {
		return nil, err
	}
	requests := make([]delivery.Request, len(r.GetDeliveries()))
	for i, item := range r.GetDeliveries() {
		request, err := s.itemOf(ctx, item, r)
		if err != nil {
			return nil, delivery.InItem(i, err)
		}
		requests[i] = request
	}
	requests[0].Count = takeCount(ctx) // The contract requires a delivery.
	all, err := s.deliverer.EnqueueBatch(ctx, requests, 0)
	if err != nil {
		return nil, err
	}
	response := &webhooksv1.EnqueueBatchResponse{Deliveries: make([]*webhooksv1.EnqueueAccepted, len(all))}
	for i, one := range all {
		response.Deliveries[i] = acceptedOf(one)
		count(one, &response.Accepted, &response.Deduplicated)
	}
	rpc.Annotate(ctx, slog.Int("accepted", int(response.GetAccepted())), slog.Int("deduplicated", int(response.GetDeduplicated())))
	accepted(ctx, response.GetAccepted() == 0, false)
	return response, nil
}

// EnqueueStream implements the method of that name.
func (s *deliveries) EnqueueStream(stream grpc.ClientStreamingServer[webhooksv1.EnqueueRequest, webhooksv1.EnqueueSummary]) error {
	ctx := stream.Context()
	if err := noSharedKey(ctx); err != nil {
		return err
	}
	summary := &webhooksv1.EnqueueSummary{}
	var pending []delivery.Request
	bytes := 0
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if err := s.flush(ctx, pending, summary); err != nil {
				return err
			}
			rpc.Annotate(ctx, slog.Int("accepted", int(summary.GetAccepted())), slog.Int("deduplicated", int(summary.GetDeduplicated())))
			return stream.SendAndClose(summary)
		}
		place := len(summary.GetDeliveryIds()) + len(pending)
		if err != nil {
			return delivery.InItem(place, err)
		}
		if place == maxStream {
			return apierr.Invalid("deliveries", fmt.Sprintf("a stream takes %d at most", maxStream))
		}
		request, err := s.itemOf(ctx, item, item)
		if err != nil {
			return delivery.InItem(place, err)
		}
		pending = append(pending, request)
		if bytes += len(request.Payload); len(pending) == streamItems || bytes >= streamBytes {
			if err := s.flush(ctx, pending, summary); err != nil {
				return err
			}
			pending, bytes = nil, 0
		}
	}
}

// flush commits the pending part of a stream and adds it to the summary.
func (s *deliveries) flush(ctx context.Context, requests []delivery.Request, summary *webhooksv1.EnqueueSummary) error {
	if len(requests) == 0 {
		return nil
	}
	all, err := s.deliverer.EnqueueBatch(ctx, requests, len(summary.GetDeliveryIds()))
	if err != nil {
		return err
	}
	for _, one := range all {
		summary.DeliveryIds = append(summary.DeliveryIds, one.ID.String())
		count(one, &summary.Accepted, &summary.Deduplicated)
	}
	return nil
}

func count(one delivery.Accepted, fresh, repeats *int32) {
	if one.Deduplicated {
		*repeats++
	} else {
		*fresh++
	}
}

// noSharedKey refuses an Idempotency-Key header: it could only apply to the whole batch, while each item has its own
// key.
func noSharedKey(ctx context.Context) error {
	if caller.From(ctx).IdempotencyKey != "" {
		return apierr.Invalid("Idempotency-Key", "each delivery has an idempotency_key of its own here")
	}
	return nil
}

// itemOf returns the request of one item. Where the item names no organization or owner, those of all apply.
func (s *deliveries) itemOf(ctx context.Context, item *webhooksv1.EnqueueRequest, all scoped) (delivery.Request, error) {
	named := &webhooksv1.EnqueueRequest{OrganizationId: item.GetOrganizationId(), OwnerId: item.GetOwnerId()}
	if named.GetOrganizationId() == "" {
		named.OrganizationId = all.GetOrganizationId()
	}
	if named.GetOwnerId() == "" {
		named.OwnerId = all.GetOwnerId()
	}
	request := requestOf(item)
	var err error
	if request.Organization, request.Owner, err = s.scope(ctx, named); err != nil {
		return delivery.Request{}, err
	}
	request.Key, request.Traceparent = item.GetIdempotencyKey(), traceparent(ctx)
	return request, nil
}
