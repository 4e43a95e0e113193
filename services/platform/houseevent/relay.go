package houseevent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// relayEvery is the interval of the relay, relayPage the number of events in one lease.
	relayEvery, relayPage = time.Second, 50
	// pageTime bounds sending a page, and sendTime one event; the lease outlasts both.
	pageTime, sendTime, leaseTime = 30 * time.Second, 5 * time.Second, time.Minute
	// minDelay and maxDelay bound the time to the next attempt.
	minDelay, maxDelay = time.Second, 5 * time.Minute
	// giveUpAfter is how long an event is sent; it is well below the 30 days for which webhook-egress knows repeats.
	giveUpAfter = 7 * 24 * time.Hour
	// upkeepEvery is the interval of the upkeep, purgePage how many records it deletes at once, storeTime its bound.
	upkeepEvery, purgePage, storeTime = time.Minute, 500, 10 * time.Second
)

// Event is an event that a service has recorded.
type Event struct {
	// ID is the same for the same event, whichever replica records it.
	ID string
	// Organization is empty for what concerns no single organization.
	Organization  string
	Type, Subject string
	OccurredAt    time.Time
	// Data is a JSON object.
	Data []byte
	// Attempts is how often it has been sent, with the present one.
	Attempts int
}

// Outbox holds a service's events until they are sent.
type Outbox interface {
	// Take leases at most limit events that are due, oldest first: for that long no other replica takes them.
	Take(ctx context.Context, limit int, lease time.Duration) ([]Event, error)
	// Sent records that events have arrived.
	Sent(ctx context.Context, ids []string) error
	// Postpone makes each event due after its delay.
	Postpone(ctx context.Context, delays map[string]time.Duration) error
	// GiveUp gives up the events of that age that have not been sent, and returns how many.
	GiveUp(ctx context.Context, age time.Duration) (int, error)
	// Purge deletes at most limit records that need not be kept, and returns how many.
	Purge(ctx context.Context, limit int) (int, error)
}

// Sender sends an event to webhook-egress. Sending it again changes nothing.
type Sender interface {
	Send(ctx context.Context, e Event) error
}

// Relay sends the events of an outbox. Every replica runs one; an event may be sent twice, with the same ID.
type Relay struct {
	outbox Outbox
	sender Sender
	// house receives the events of no single organization.
	house  string
	log    *slog.Logger
	random func() float64
}

// NewRelay returns a Relay that does nothing until Run. Events of no single organization go to house. Without a sender,
// which may be nil, there is only its Upkeep.
func NewRelay(outbox Outbox, sender Sender, house string, log *slog.Logger) *Relay {
	return &Relay{outbox, sender, house, log, rand.Float64}
}

// Run sends until ctx ends. It is a part of the service's lifecycle.
func (r *Relay) Run(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: relayEvery, Log: r.log, Name: "relay of events",
		Do: func(ctx context.Context) error { return lifecycle.UntilDone(ctx, relayPage, pageTime, r.page) },
	}.Run(ctx)
}

// page sends a page of events. After the first failure the others of the page wait, too: webhook-egress is away.
func (r *Relay) page(ctx context.Context, limit int) (int, error) {
	events, err := r.outbox.Take(ctx, limit, leaseTime)
	if err != nil {
		return 0, err
	}
	var sent []string
	var failure error
	delays := make(map[string]time.Duration)
	for _, e := range events {
		if failure == nil {
			failure = r.send(ctx, e)
		}
		if failure != nil {
			delays[e.ID] = Delay(e.Attempts, r.random())
			continue
		}
		sent = append(sent, e.ID)
	}
	return len(events), errors.Join(failure, r.settle(ctx, sent, delays))
}

func (r *Relay) send(ctx context.Context, e Event) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	e.Organization = cmp.Or(e.Organization, r.house)
	if err := r.sender.Send(ctx, e); err != nil {
		return fmt.Errorf("send %s: %w", e.ID, err)
	}
	return nil
}

// settle records the results of a page. It runs even if the time of the page is over; what it can't record is sent
// again after the lease.
func (r *Relay) settle(ctx context.Context, sent []string, delays map[string]time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	var errs []error
	if len(sent) > 0 {
		errs = append(errs, r.outbox.Sent(ctx, sent))
	}
	if len(delays) > 0 {
		errs = append(errs, r.outbox.Postpone(ctx, delays))
	}
	return errors.Join(errs...)
}

// Delay returns the time to the next attempt after so many; random is from 0 to 1.
func Delay(attempts int, random float64) time.Duration {
	delay := maxDelay
	if attempts < 9 { // 2^9 s is above the maximum.
		delay = min(minDelay<<max(attempts-1, 0), maxDelay)
	}
	return delay/2 + time.Duration(random*float64(delay/2))
}

// Upkeep gives up events that have not been sent for seven days, and deletes old records, until ctx ends. It is a part of
// the service's lifecycle.
func (r *Relay) Upkeep(ctx context.Context) error {
	return lifecycle.Repeat{Every: upkeepEvery, Log: r.log, Name: "upkeep of events", Do: r.upkeep}.Run(ctx)
}

func (r *Relay) upkeep(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	given, err := r.outbox.GiveUp(bounded, giveUpAfter)
	if given > 0 {
		r.log.ErrorContext(ctx, "events have not been sent for seven days and are given up", slog.Int("events", given))
	}
	return errors.Join(err, lifecycle.UntilDone(ctx, purgePage, storeTime, r.outbox.Purge))
}
