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
	// testReserve is the part of the caller's time that is kept for the response.
	testReserve = 500 * time.Millisecond
	// minPoll and maxPoll bound the interval at which the store is polled for the end.
	minPoll, maxPoll = 10 * time.Millisecond, 250 * time.Millisecond
)

// TestDelivery is a request for one test delivery to an endpoint.
type TestDelivery struct {
	Organization, Owner, URL, EventType, SigningMode string
	Payload                                          []byte
	Endpoint                                         JobEndpoint
	Traceparent                                      string
}

// SendTest sends one delivery without retries and waits for its end. The delivery does not count for its endpoint's
// health. When the caller's deadline comes first, the record is of a delivery that has not ended. attempt is nil when
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

// await polls a delivery until it has ended.
func (s *Service) await(ctx context.Context, organization string, id ID) (Record, *Attempt, error) {
	polling := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		polling, cancel = context.WithDeadline(ctx, deadline.Add(-testReserve))
		defer cancel()
	}
	for pause := minPoll; ; pause = min(2*pause, maxPoll) {
		record, err := s.o.Store.Get(ctx, organization, "", id, false)
		if err != nil {
			return Record{}, nil, fmt.Errorf("read test: %w", err)
		}
		if record.Status.Ended() || polling.Err() != nil {
			made, _, err := s.o.Store.Attempts(ctx, id, 0, 1)
			if err != nil || len(made) == 0 {
				return record, nil, err
			}
			return record, &made[0], nil
		}
		select {
		case <-polling.Done():
		case <-time.After(pause):
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return Record{}, nil, apierr.From(ctx.Err())
		}
	}
}
