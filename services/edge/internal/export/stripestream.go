package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/services/platform/secret"
)

// stripeStream sends batches of billing meter events to Stripe's stream
// (https://docs.stripe.com/api/v2/billing/meter-event-stream/create). Stripe accepts a batch before it checks the events
// and reports refused events later, in an event of its own. Identifiers are unique for at least 24 hours and values are
// whole numbers, as for single events. A stripeStream is not safe for concurrent use.
type stripeStream struct {
	poster

	// streamURL is the base URL of the stream, whose requests show the token of a session.
	streamURL string
	session   session
}

// session is an authentication session of the stream (https://docs.stripe.com/api/v2/billing/meter-event-stream/session/create).
type session struct {
	token   secret.Value
	expires time.Time
}

const (
	stripeStreamBatch = 100
	// stripeVersion is the version of Stripe's API that brought the stream.
	stripeVersion = "2024-09-30.acacia"
	sessionPath   = "/v2/billing/meter_event_session"
	streamPath    = "/v2/billing/meter_event_stream"
	// sessionMargin is how long before its end a session is replaced, sessionTime how long one is used at most.
	sessionMargin, sessionTime = time.Minute, 15 * time.Minute
)

func (*stripeStream) batch() int { return stripeStreamBatch }

type streamEvent struct {
	Name       string        `json:"event_name"`
	Identifier string        `json:"identifier"`
	Timestamp  string        `json:"timestamp"`
	Payload    streamPayload `json:"payload"`
}

type streamPayload struct {
	Customer string `json:"stripe_customer_id"`
	Value    string `json:"value"`
}

// streamBody returns the body of a request.
func streamBody(events []Event) ([]byte, error) {
	var body struct {
		Events []streamEvent `json:"events"`
	}
	body.Events = make([]streamEvent, len(events))
	for i, e := range events {
		body.Events[i] = streamEvent{
			Name: e.Name, Identifier: e.Identifier, Timestamp: e.At.UTC().Format(time.RFC3339),
			Payload: streamPayload{e.Customer, e.Amount},
		}
	}
	return json.Marshal(body)
}

func (s *stripeStream) send(ctx context.Context, events []Event) (settlement, error) {
	return sendAll(ctx, events, s.sendBatch)
}

// sendBatch sends a batch. It refuses fractions itself, because Stripe would accept the batch and drop them later.
func (s *stripeStream) sendBatch(ctx context.Context, events []Event) (verdict, error) {
	fractions := make(map[int]string)
	for i, e := range events {
		if !whole(e.Amount) {
			fractions[i] = "the value must be a whole number"
		}
	}
	if len(fractions) > 0 {
		return verdict{unacceptable: fractions}, nil
	}
	body, err := streamBody(events)
	if err != nil {
		return verdict{}, fmt.Errorf("encode events: %w", err)
	}
	if err := s.open(ctx, time.Now()); err != nil {
		return verdict{}, err
	}
	a, err := s.postTo(ctx, s.streamURL+streamPath, s.session.token, "application/json", bytes.NewReader(body), s.header())
	if later, ok := errors.AsType[*laterError](err); ok && later.status == http.StatusUnauthorized {
		s.session = session{} // It has expired, or was revoked.
	}
	if err != nil {
		return verdict{}, err
	}
	return verdict{taken: a.taken(), reason: stripeReason(a)}, nil
}

func (*stripeStream) header() http.Header { return http.Header{"Stripe-Version": {stripeVersion}} }

// open begins a session unless there is one. Its errors say that nothing was sent to the stream.
func (s *stripeStream) open(ctx context.Context, now time.Time) error {
	if now.Before(s.session.expires.Add(-sessionMargin)) {
		return nil
	}
	a, err := s.post(ctx, sessionPath, "application/json", strings.NewReader("{}"), s.header())
	if err != nil {
		if lost, ok := errors.AsType[*lostError](err); ok {
			err = lost.cause
		}
		return fmt.Errorf("begin a session: %w", err)
	}
	var body struct {
		Token   string    `json:"authentication_token"`
		Expires time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal(a.text, &body); err != nil || body.Token == "" || !a.taken() {
		return fmt.Errorf("begin a session: %w", &laterError{status: a.status, reason: stripeReason(a)})
	}
	if latest := now.Add(sessionTime); body.Expires.After(latest) {
		body.Expires = latest
	}
	s.session = session{secret.New(body.Token), body.Expires}
	return nil
}
