package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/platform/apierr"
)

const (
	// testLife is the deadline of a test that could not be sent at once.
	testLife = time.Minute
	// testReserve of the caller's time is kept for the answer.
	testReserve = 500 * time.Millisecond
	// minLook and maxLook are how often the store is asked whether it has ended.
	minLook, maxLook = 10 * time.Millisecond, 250 * time.Millisecond
)

// TestDelivery is one test delivery for an endpoint.
type TestDelivery struct {
	Organization, Owner, URL, EventType, SigningMode string
	Payload                                          []byte
	Endpoint                                         JobEndpoint
	Traceparent                                      string
}

// SendTest sends one delivery without retries that counts neither for nor against its
// endpoint, and waits for its end. When that takes longer than the caller has
// time, the record is of a delivery that has not ended. attempt is nil when
// none was made.
func (s *Service) SendTest(ctx context.Context, t TestDelivery) (record Record, attempt *Attempt, err error) {
	now := s.o.Now()
	if err := checkPayload(t.Payload); err != nil {
		return Record{}, nil, err
	}
	u, err := s.o.Targets.Check(ctx, t.URL)
	if err != nil {
		return Record{}, nil, err
	}
	accepted, err := s.commit(ctx, &Draft{
		ID: NewID(now), Organization: t.Organization, Owner: t.Owner, Target: TargetOf(t.Organization, u), URL: u.String(),
		EventType: t.EventType, SigningMode: t.SigningMode, Body: t.Payload, MaxAttempts: 1, Deadline: now.Add(testLife),
		Traceparent: t.Traceparent, Endpoint: &t.Endpoint, Test: true,
	})
	if err != nil {
		return Record{}, nil, err
	}
	return s.await(ctx, t.Organization, accepted.ID)
}

// await looks at a delivery until it has ended.
func (s *Service) await(ctx context.Context, organization string, id ID) (Record, *Attempt, error) {
	patience := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		patience, cancel = context.WithDeadline(ctx, deadline.Add(-testReserve))
		defer cancel()
	}
	for pause := minLook; ; pause = min(2*pause, maxLook) {
		record, err := s.o.Store.Get(ctx, organization, "", id, false)
		if err != nil {
			return Record{}, nil, fmt.Errorf("read test: %w", err)
		}
		if record.Status.Ended() || patience.Err() != nil {
			made, _, err := s.o.Store.Attempts(ctx, id, 0, 1)
			if err != nil || len(made) == 0 {
				return record, nil, err
			}
			return record, &made[0], nil
		}
		select {
		case <-patience.Done():
		case <-time.After(pause):
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return Record{}, nil, apierr.From(ctx.Err())
		}
	}
}
