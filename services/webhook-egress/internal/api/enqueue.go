package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// enqueueTime bounds an enqueue over HTTP, like the server's limit for unary calls.
const enqueueTime = 15 * time.Second

// Enqueue implements the method of that name.
func (s *deliveries) Enqueue(ctx context.Context, r *webhooksv1.EnqueueRequest) (*webhooksv1.EnqueueAccepted, error) {
	one, err := s.enqueue(ctx, r)
	if err != nil {
		return nil, err
	}
	accepted(ctx, one.Deduplicated, one.Mismatch)
	return acceptedOf(one), nil
}

func (s *deliveries) enqueue(ctx context.Context, r *webhooksv1.EnqueueRequest) (delivery.Accepted, error) {
	organization, owner, key, err := s.keyedScope(ctx, r)
	if err != nil {
		return delivery.Accepted{}, err
	}
	request := requestOf(r)
	request.Organization, request.Owner, request.Key = organization, owner, key
	request.Traceparent, request.Count = traceparent(ctx), takeCount(ctx)
	one, err := s.deliverer.Enqueue(ctx, request)
	if err == nil {
		rpc.Annotate(ctx, slog.String("delivery_id", one.ID.String()), slog.Bool("deduplicated", one.Deduplicated))
	}
	return one, err
}

// enqueued is the JSON form of webhooksv1.EnqueueAccepted.
type enqueued struct {
	DeliveryID     string  `json:"delivery_id"`
	OrganizationID string  `json:"organization_id"`
	Status         string  `json:"status"`
	IdempotencyKey *string `json:"idempotency_key"`
	Deduplicated   bool    `json:"deduplicated"`
}

// serveEnqueue is Enqueue for JSON, the path of most deliveries. Transcoding the message would cost more than
// accepting the delivery.
func (s *deliveries) serveEnqueue(decode func(*http.Request, proto.Message) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		request := &webhooksv1.EnqueueRequest{}
		if err := decode(r, request); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), enqueueTime)
		defer cancel()
		one, err := s.enqueue(ctx, request)
		if err != nil {
			return err
		}
		return writeEnqueued(w, one)
	}
}

func writeEnqueued(w http.ResponseWriter, one delivery.Accepted) error {
	answer := enqueued{
		DeliveryID: one.ID.String(), OrganizationID: one.Organization, Status: string(one.Status), Deduplicated: one.Deduplicated,
	}
	if one.Key != "" {
		answer.IdempotencyKey = &one.Key
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	header, status := w.Header(), http.StatusAccepted
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(text)))
	if one.Mismatch {
		header.Set(HeaderMismatch, "true")
	}
	if one.Deduplicated {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // A client that has disconnected can repeat the request.
	return nil
}
