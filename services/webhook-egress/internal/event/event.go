// Package event owns fan-out: an event becomes one delivery per active endpoint that receives its type, all in one
// transaction. The API emits through [Service], and the events of Switchyard's other services through [House]; [Relay]
// emits the service's own events.
package event

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/schema"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/eventtype"
	"switchyard.dev/services/webhook-egress/internal/filter"
)

// tries is how often a transaction is tried that ends in a conflict.
const tries = 3

// Request is an event as the caller requested it, with its organization and owner determined.
type Request struct {
	delivery.Asked

	Organization string
	// Owner restricts the event to that owner's endpoints; empty for every owner's.
	Owner       string
	EventType   string
	Key         string
	Traceparent string
	// Count is the call's count; nil for a call that counts nothing.
	Count *callcount.Count
}

// Event is a checked event that is not fanned out yet.
type Event struct {
	delivery.Content

	ID           delivery.ID
	Organization string
	Owner        string
	EventType    string
	// Patterns are the endpoint patterns that match the event type.
	Patterns []string
	// Except is an endpoint that does not receive the event; zero for none.
	Except delivery.ID
	// Own marks the service's own events: they go to the endpoints of the owner Concerned and to those without an
	// owner only.
	Own       bool
	Concerned string
	// Record is kept with the fan-out of an own event; zero for the events of callers.
	Record Record
	// Key is the idempotency key, unique within the organization and owner; empty for none.
	Key         string
	Fingerprint [32]byte
	Traceparent string
	// OrderingKey orders the deliveries of each endpoint that have the same one; empty for none.
	OrderingKey string
	// Rejected is why the payload is refused; nil for an event that is taken.
	Rejected error
	// Judge evaluates the filters of endpoints. The event's deliveries are to those whose filter it does not find
	// unmatched.
	Judge *filter.Judge
	// Count is the count of the call that emitted the event; nil for none.
	Count *callcount.Count
}

// Fanned is one delivery of an event.
type Fanned struct {
	Delivery, Endpoint delivery.ID
	// FilterError is why the endpoint's filter could not be evaluated; empty when it could.
	FilterError string
}

// Result is the result of a fan-out.
type Result struct {
	// ID is that of the first event when the key was used before.
	ID            delivery.ID
	Deliveries    []Fanned
	SkippedPaused int
	// SkippedFiltered is the number of endpoints, active and paused, whose filter does not match.
	SkippedFiltered int
	Deduplicated    bool
	// Mismatch reports that the first use of the key asked for something else.
	Mismatch bool
	// Warnings are where the payload breaks the schema of a type whose events are taken all the same.
	Warnings []schema.Violation
}

// Store persists fan-outs.
type Store interface {
	// FanOut commits the event and a delivery for each endpoint that matches and is active at that moment. If the key was
	// used before, it returns the result of its first event; otherwise it commits nothing for a rejected event, and returns
	// why. Unless it fails, it stores the event's count as well, also for a repeat. Fan-outs share an advisory lock of the
	// organization, which changes of endpoints take exclusively, so that an event reaches exactly the endpoints that are
	// active at its commit.
	FanOut(ctx context.Context, e Event) (Result, error)
}

// Waker is notified of deliveries that wait in the store.
type Waker interface {
	Waiting()
}

// Filters evaluates the filters of endpoints, as filter.Engine does.
type Filters interface {
	Judge(e filter.Event) *filter.Judge
}

// Types checks the payloads of events, as eventtype.Service does.
type Types interface {
	Check(ctx context.Context, organization, eventType string, payload []byte) (eventtype.Checked, error)
}

// Service emits events.
type Service struct {
	store   Store
	waker   Waker
	filters Filters
	types   Types
	intake  delivery.Intake
	now     func() time.Time
}

// NewService returns a Service.
func NewService(store Store, waker Waker, filters Filters, types Types, intake delivery.Intake, now func() time.Time) *Service {
	return &Service{store, waker, filters, types, intake, now}
}

// judge returns the judge of an event with its content.
func (e *Event) judge(filters Filters) *filter.Judge {
	return filters.Judge(filter.Event{
		Type: e.EventType, Organization: e.Organization, Owner: e.Owner, Created: e.ID.Time(), Payload: e.Body,
	})
}

// Emit checks a request and returns once its deliveries are committed.
func (s *Service) Emit(ctx context.Context, r Request) (Result, error) {
	if err := delivery.CheckEventType(r.EventType); err != nil {
		return Result{}, err
	}
	id := delivery.NewID(s.now())
	content, err := s.intake.Take(r.Asked, id, s.now())
	if err != nil {
		return Result{}, err
	}
	err = delivery.CheckTexts(map[string]string{
		"organization_id": r.Organization, "owner_id": r.Owner, "idempotency_key": r.Key, "ordering_key": r.OrderingKey,
	})
	if err != nil {
		return Result{}, err
	}
	checked, err := s.types.Check(ctx, r.Organization, r.EventType, content.Body)
	if err != nil {
		return Result{}, fmt.Errorf("check payload: %w", err)
	}
	if checked.Rejected != nil && r.Key == "" {
		return Result{}, checked.Rejected
	}
	result, err := s.fanOut(ctx, Event{
		Content: content, ID: id, Organization: r.Organization, Owner: r.Owner, EventType: r.EventType,
		Patterns: endpoint.Patterns(r.EventType), Key: r.Key, Traceparent: r.Traceparent,
		Fingerprint: delivery.Fingerprint([]string{r.Owner, r.EventType}, r.Asked), OrderingKey: r.OrderingKey,
		Rejected: checked.Rejected, Count: r.Count,
	})
	result.Warnings = checked.Warnings
	return result, err
}

// fanOut stores an event and wakes those who send its deliveries.
func (s *Service) fanOut(ctx context.Context, e Event) (result Result, err error) {
	for try := 1; ; try++ {
		e.Judge = e.judge(s.filters)
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
