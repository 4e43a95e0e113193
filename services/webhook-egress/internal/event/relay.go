package event

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
)

const (
	// relayPause is how often the relay looks, relayPage how many it tells in one transaction.
	relayPause, relayPage = time.Second, 50
	// relayTimeout bounds that transaction.
	relayTimeout = 10 * time.Second
)

// Operational is an event of the service itself, as it was noted.
type Operational struct {
	Organization string
	Type         string
	// Endpoint that it is about, and that does not receive it; zero for none.
	Endpoint delivery.ID
	// Delivery that it is about; zero for none.
	Delivery delivery.ID
	// Owner of the endpoint or the delivery; empty for none.
	Owner    string
	Occurred time.Time
}

// Notes holds what the service has to tell.
type Notes interface {
	// Relay takes at most limit notes away and fans out what made of them, in one
	// transaction.
	Relay(ctx context.Context, limit int, made func(Operational) (Event, error)) (taken, deliveries int, err error)
}

// Relay fans out the service's own events. Every replica does it; none is told twice.
type Relay struct {
	notes       Notes
	waker       Waker
	maxAttempts int
	log         *slog.Logger
	now         func() time.Time
}

// NewRelay returns a relay; its deliveries have so many attempts at most.
func NewRelay(notes Notes, waker Waker, maxAttempts int, log *slog.Logger, now func() time.Time) *Relay {
	return &Relay{notes, waker, maxAttempts, log, now}
}

// Run relays until ctx ends.
func (r *Relay) Run(ctx context.Context) error {
	return lifecycle.Repeat{Every: relayPause, Do: r.relay, Log: r.log, Name: "relay of operational events"}.Run(ctx)
}

// relay tells all that there is.
func (r *Relay) relay(ctx context.Context) error {
	for {
		taken, err := r.page(ctx)
		if err != nil || taken < relayPage {
			return err
		}
	}
}

func (r *Relay) page(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	taken, deliveries, err := r.notes.Relay(ctx, relayPage, r.event)
	if err != nil {
		return 0, fmt.Errorf("relay: %w", err)
	}
	if deliveries > 0 {
		r.waker.Waiting()
	}
	return taken, nil
}

// event is what is told of a note.
func (r *Relay) event(o Operational) (Event, error) {
	body := struct {
		Type         string    `json:"type"`
		Occurred     time.Time `json:"occurred_at"`
		Organization string    `json:"organization_id"`
		Endpoint     *string   `json:"endpoint_id"`
		Delivery     string    `json:"delivery_id,omitempty"`
	}{Type: o.Type, Occurred: o.Occurred.UTC(), Organization: o.Organization}
	if o.Endpoint != (delivery.ID{}) {
		body.Endpoint = new(o.Endpoint.String())
	}
	if o.Delivery != (delivery.ID{}) {
		body.Delivery = o.Delivery.String()
	}
	payload, err := json.Marshal(body)
	if err != nil {
		return Event{}, fmt.Errorf("operational event: %w", err)
	}
	return Event{
		Content: delivery.Content{Body: payload, MaxAttempts: r.maxAttempts}, ID: delivery.NewID(r.now()),
		Organization: o.Organization, EventType: o.Type, Patterns: endpoint.Patterns(o.Type), Except: o.Endpoint,
		Own: true, Concerned: o.Owner,
	}, nil
}
