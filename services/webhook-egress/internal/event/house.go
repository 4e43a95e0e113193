package event

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
)

// HouseRequest is an event of another service of Switchyard. Type, Source and the lengths are checked by the contract.
type HouseRequest struct {
	// ID identifies the event within its organization: a repeat has the same one.
	ID, Organization, Type, Source, Subject string
	Occurred                                time.Time
	// Data is a JSON object.
	Data []byte
}

// Record is what is kept of a house event.
type Record struct {
	ID string
	// CloudEvent is the event in structured JSON.
	CloudEvent []byte
}

// Recorded is a Record with its place among those of all organizations.
type Recorded struct {
	Record

	// Sequence is above that of every record committed before.
	Sequence            int64
	Organization, Owner string
	RecordedAt          time.Time
}

// HouseResult is the result of an event's fan-out.
type HouseResult struct {
	Deliveries   int
	Deduplicated bool
}

// HouseStore persists house events.
type HouseStore interface {
	// FanOutHouse commits the record of an event and its deliveries. If the organization has a record of the same ID, it
	// commits nothing.
	FanOutHouse(ctx context.Context, e Event) (HouseResult, error)
	// ListHouse returns at most limit records after a sequence, oldest first; of every organization if it is empty.
	ListHouse(ctx context.Context, organization string, after int64, limit int) ([]Recorded, error)
}

// House takes the events of Switchyard's services and lists them.
type House struct {
	store       HouseStore
	waker       Waker
	filters     Filters
	maxAttempts int
	now         func() time.Time
}

// NewHouse returns a House; its deliveries have at most maxAttempts attempts.
func NewHouse(store HouseStore, waker Waker, filters Filters, maxAttempts int, now func() time.Time) *House {
	return &House{store, waker, filters, maxAttempts, now}
}

// Emit checks a request and returns once its record and deliveries are committed.
func (h *House) Emit(ctx context.Context, r HouseRequest) (result HouseResult, err error) {
	e, err := h.event(r)
	if err != nil {
		return HouseResult{}, err
	}
	for try := 1; ; try++ {
		e.Judge = e.judge(h.filters)
		result, err = h.store.FanOutHouse(ctx, e)
		if !errors.Is(err, delivery.ErrConflict) || try == tries {
			break
		}
	}
	if err != nil {
		return HouseResult{}, fmt.Errorf("emit house event: %w", err)
	}
	if result.Deliveries > 0 {
		h.waker.Waiting()
	}
	return result, nil
}

// event returns the event of a request.
func (h *House) event(r HouseRequest) (Event, error) {
	if rule := jsoncheck.ObjectRule(r.Data); rule != "" {
		return Event{}, apierr.Invalid("data", rule)
	}
	if year := r.Occurred.Year(); year < 1 || year > 9999 {
		return Event{}, apierr.Invalid("occurred_at", "must be a time between the years 1 and 9999")
	}
	if err := delivery.CheckTexts(map[string]string{"organization_id": r.Organization, "subject": r.Subject}); err != nil {
		return Event{}, err
	}
	body, err := newCloudEvent(r.ID, r.Source, r.Type, r.Subject, r.Occurred, r.Data).structured()
	if err != nil {
		return Event{}, err
	}
	return Event{
		Content: delivery.Content{Body: body, Headers: map[string]string{"Content-Type": structuredType}, MaxAttempts: h.maxAttempts},
		ID:      delivery.NewID(h.now()), Organization: r.Organization, EventType: r.Type, Patterns: endpoint.Patterns(r.Type),
		Own: true, Record: Record{ID: r.ID, CloudEvent: body},
	}, nil
}

// List returns at most limit events after a sequence, oldest first; of every organization if organization is empty.
func (h *House) List(ctx context.Context, organization string, after int64, limit int) ([]Recorded, error) {
	events, err := h.store.ListHouse(ctx, organization, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list house events: %w", err)
	}
	return events, nil
}
