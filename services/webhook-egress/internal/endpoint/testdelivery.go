package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// Test is a request for a test delivery; without type and payload, it is a ping.
type Test struct {
	EventType   string
	Payload     []byte
	Traceparent string
}

// Test sends one delivery to the endpoint now, even if it is paused. attempt is nil when none was made before the
// caller's deadline.
func (s *Service) Test(ctx context.Context, scope Scope, id string, t Test) (delivery.Record, *delivery.Attempt, error) {
	e, err := s.Get(ctx, scope, id)
	if err != nil {
		return delivery.Record{}, nil, err
	}
	if t.EventType == "" {
		t.EventType = pingType
	}
	if len(t.Payload) == 0 {
		if t.Payload, err = ping(e, t.EventType, s.o.Now()); err != nil {
			return delivery.Record{}, nil, err
		}
	}
	return s.o.Deliverer.SendTest(ctx, delivery.TestDelivery{
		Organization: e.Organization, Owner: e.Owner, URL: e.URL, EventType: t.EventType, SigningMode: e.SigningMode,
		Payload: t.Payload, Traceparent: t.Traceparent,
		Endpoint: delivery.JobEndpoint{
			ID: e.ID, Secret: e.Secret, Earlier: e.Earlier,
			Headers: e.Headers, Auth: e.SealedAuth, Signatures: e.Signatures, Moves: e.Moves,
		},
	})
}

func ping(e Endpoint, eventType string, now time.Time) ([]byte, error) {
	payload, err := json.Marshal(struct {
		Type       string    `json:"type"`
		OccurredAt time.Time `json:"occurred_at"`
		EndpointID string    `json:"endpoint_id"`
	}{eventType, now.UTC().Truncate(time.Millisecond), e.ID.String()})
	if err != nil {
		return nil, fmt.Errorf("ping: %w", err)
	}
	return payload, nil
}
