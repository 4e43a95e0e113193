// Package event owns fan-out: an event becomes one delivery for each active
// endpoint that receives its type, all in one transaction. The API emits through
// [Service]; [Relay] emits what the service itself has to tell.
package event

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
)

// tries is how often a transaction is repeated that lost against another.
const tries = 3

// Request is an event as it was asked for, its identity settled.
type Request struct {
	delivery.Asked

	Organization string
	// Owner whose endpoints it is for; empty for every owner's.
	Owner       string
	EventType   string
	Key         string
	Traceparent string
}

// Event is a checked event that is about to be fanned out.
type Event struct {
	delivery.Content

	ID           delivery.ID
	Organization string
	Owner        string
	EventType    string
	// Patterns are what in an endpoint's event types matches it.
	Patterns []string
	// Except is an endpoint that does not receive it; zero for none.
	Except delivery.ID
	// Own events are the service's: they go to the endpoints of the owner concerned
	// and to those without an owner, to no other owner's.
	Own       bool
	Concerned string
	// Key deduplicates within the organization; empty for none.
	Key         string
	Fingerprint [32]byte
	Traceparent string
}

// Fanned is one delivery of an event.
type Fanned struct{ Delivery, Endpoint delivery.ID }

// Result of a fan-out.
type Result struct {
	// ID is the first event's where the key was used before.
	ID            delivery.ID
	Deliveries    []Fanned
	SkippedPaused int
	Deduplicated  bool
	// Mismatch tells that the first use of the key asked for something else.
	Mismatch bool
}

// Store fans out.
type Store interface {
	// FanOut commits the event and a delivery for each endpoint that matches and
	// is active at that moment, or gives the result of the key's first event.
	FanOut(ctx context.Context, e Event) (Result, error)
}

// Waker is told of deliveries that wait in the store.
type Waker interface {
	Waiting()
}

// Service emits events.
type Service struct {
	store  Store
	waker  Waker
	intake delivery.Intake
	now    func() time.Time
}

// NewService returns a service.
func NewService(store Store, waker Waker, intake delivery.Intake, now func() time.Time) *Service {
	return &Service{store, waker, intake, now}
}

// Emit checks a request and returns when its deliveries are committed.
func (s *Service) Emit(ctx context.Context, r Request) (Result, error) {
	if err := delivery.CheckEventType(r.EventType); err != nil {
		return Result{}, err
	}
	id := delivery.NewID(s.now())
	content, err := s.intake.Take(r.Asked, id, s.now())
	if err != nil {
		return Result{}, err
	}
	if err := delivery.CheckTexts(map[string]string{"organization_id": r.Organization, "owner_id": r.Owner, "idempotency_key": r.Key}); err != nil {
		return Result{}, err
	}
	e := Event{
		Content: content, ID: id, Organization: r.Organization, Owner: r.Owner, EventType: r.EventType,
		Patterns: endpoint.Patterns(r.EventType), Key: r.Key, Traceparent: r.Traceparent,
		Fingerprint: delivery.Fingerprint([]string{r.Owner, r.EventType}, r.Asked),
	}
	var result Result
	for try := 1; ; try++ {
		result, err = s.store.FanOut(ctx, e)
		if !errors.Is(err, delivery.ErrConflict) || try == tries {
			break
		}
	}
	if err != nil {
		return Result{}, fmt.Errorf("emit event: %w", err)
	}
	if !result.Deduplicated && len(result.Deliveries) > 0 {
		s.waker.Waiting()
	}
	return result, nil
}
