package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
)

const (
	// relayPause is the interval of the relay, relayPage how many notes it relays in one transaction.
	relayPause, relayPage = time.Second, 50
	// relayTimeout bounds that transaction.
	relayTimeout = 10 * time.Second
)

// Operational is a note of an event of the service itself.
type Operational struct {
	Organization string
	Type         string
	// Endpoint is the subject of the event and does not receive it; zero for none.
	Endpoint delivery.ID
	// Delivery is the subject of the event; zero for none.
	Delivery delivery.ID
	// Owner is that of the endpoint or the delivery; empty for none.
	Owner    string
	Occurred time.Time
	// Target is the subject of the event of a circuit; zero for other events.
	Target Target
}

// Target is a host and port, whose circuit opened at a time.
type Target struct {
	Host   string
	Port   int
	Opened time.Time
}

// ErrDropped reports that a note must not be fanned out.
var ErrDropped = errors.New("event: the note is dropped")

// Notes is the queue of the service's own events.
type Notes interface {
	// Relay removes at most limit notes and fans out the events that made returns for them, in one transaction. A
	// note for which made returns ErrDropped is only removed.
	Relay(ctx context.Context, limit int, made func(Operational) (Event, error)) (taken, deliveries int, err error)
}

// Relay fans out the service's own events. Every replica runs one; each note is relayed once.
type Relay struct {
	notes       Notes
	waker       Waker
	filters     Filters
	maxAttempts int
	log         *slog.Logger
	now         func() time.Time
}

// NewRelay returns a Relay; its deliveries have at most maxAttempts attempts.
func NewRelay(notes Notes, waker Waker, filters Filters, maxAttempts int, log *slog.Logger, now func() time.Time) *Relay {
	return &Relay{notes, waker, filters, maxAttempts, log, now}
}

// Run relays until ctx ends.
func (r *Relay) Run(ctx context.Context) error {
	return lifecycle.Repeat{Every: relayPause, Do: r.relay, Log: r.log, Name: "relay of operational events"}.Run(ctx)
}

// relay relays all notes. If a page cannot be stored, or panics, its notes are relayed one by one. A note that fails
// alone is dropped, since it would block all others.
func (r *Relay) relay(ctx context.Context) error {
	for limit := relayPage; ; {
		taken, err := r.page(ctx, limit, r.event)
		if limit > 1 && unrelayable(err) {
			limit = 1
			continue
		}
		if unrelayable(err) {
			taken, err = r.single(ctx)
		}
		if err != nil || taken < limit {
			return err
		}
	}
}

// unrelayable reports whether relaying the same notes again would fail again.
func unrelayable(err error) bool {
	return errors.Is(err, delivery.ErrRejected) || errors.Is(err, panics.Err)
}

// single relays the next note, and drops it if that fails.
func (r *Relay) single(ctx context.Context) (int, error) {
	var note Operational
	taken, err := r.page(ctx, 1, func(o Operational) (Event, error) {
		note = o
		return r.event(o)
	})
	if !unrelayable(err) || note == (Operational{}) {
		return taken, err
	}
	r.log.ErrorContext(ctx, "an operational event can't be relayed and is dropped", slog.String("type", note.Type),
		slog.String("organization", note.Organization), slog.String("error", err.Error()))
	return r.page(ctx, 1, func(o Operational) (Event, error) {
		if o == note { // otherwise another replica relays it
			return Event{}, ErrDropped
		}
		return r.event(o)
	})
}

// page relays at most limit notes in one transaction.
func (r *Relay) page(ctx context.Context, limit int, made func(Operational) (Event, error)) (taken int, err error) {
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	var deliveries int
	err = lifecycle.Protect(ctx, "webhook relay", func() (err error) {
		taken, deliveries, err = r.notes.Relay(ctx, limit, made)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("relay: %w", err)
	}
	if deliveries > 0 {
		r.waker.Waiting()
	}
	return taken, nil
}

// event returns the event of a note.
func (r *Relay) event(o Operational) (Event, error) {
	subject, payload, err := o.content()
	if err != nil {
		return Event{}, fmt.Errorf("operational event: %w", err)
	}
	id := delivery.NewID(r.now())
	cloud := newCloudEvent(id.String(), source, o.Type, subject, o.Occurred, payload)
	record, err := cloud.structured()
	if err != nil {
		return Event{}, err
	}
	e := Event{
		// The body is as it was before these events became CloudEvents; the attributes are in headers.
		Content:      delivery.Content{Body: payload, Headers: cloud.headers(), MaxAttempts: r.maxAttempts},
		ID:           id,
		Organization: o.Organization, EventType: o.Type, Patterns: endpoint.Patterns(o.Type), Except: o.Endpoint,
		Own: true, Concerned: o.Owner, Record: Record{ID: id.String(), CloudEvent: record},
	}
	e.Judge = e.judge(r.filters)
	return e, nil
}

// common is what the data of all events of the service have.
type common struct {
	Type         string    `json:"type"`
	Occurred     time.Time `json:"occurred_at"`
	Organization string    `json:"organization_id"`
}

// content returns the subject and the data of the event of a note.
func (o *Operational) content() (subject string, data []byte, err error) {
	about := common{o.Type, o.Occurred.UTC(), o.Organization}
	if o.Target != (Target{}) {
		data, err = json.Marshal(struct {
			common
			Host   string    `json:"host"`
			Port   int       `json:"port"`
			Opened time.Time `json:"opened_at"`
		}{about, o.Target.Host, o.Target.Port, o.Target.Opened.UTC()})
		return "target/" + net.JoinHostPort(o.Target.Host, strconv.Itoa(o.Target.Port)), data, err
	}
	body := struct {
		common
		Endpoint *string `json:"endpoint_id"`
		Delivery string  `json:"delivery_id,omitempty"`
	}{common: about}
	if o.Delivery != (delivery.ID{}) {
		body.Delivery = o.Delivery.String()
		subject = "delivery/" + body.Delivery
	}
	if o.Endpoint != (delivery.ID{}) {
		body.Endpoint = new(o.Endpoint.String())
		subject = "endpoint/" + *body.Endpoint
	}
	data, err = json.Marshal(body)
	return subject, data, err
}
