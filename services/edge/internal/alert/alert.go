// Package alert notifies people of what happens to their organization: its rules select events of Switchyard's services and
// name who is notified of them. [Rules] keeps the rules; [Dispatcher] applies them, on one replica at a time.
package alert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// followEvery is the interval at which new events are read, pageSize how many at once.
	followEvery, pageSize = time.Second, 50
	// pageTime bounds a page with all that is sent for it.
	pageTime = 20 * time.Second
	// purgeEvery is the interval at which old notices are forgotten.
	purgeEvery = time.Hour
)

// Event is an event of Switchyard.
type Event struct {
	// Cursor is the position of the event in the feed.
	Cursor                          string
	ID, Organization, Type, Subject string
	// Data holds texts, numbers as float64, booleans, null, and lists and objects of these.
	Data       map[string]any
	RecordedAt time.Time
}

// Feed reads events.
type Feed interface {
	// After returns at most limit events after the one with a cursor, oldest first; from the oldest if it is empty.
	After(ctx context.Context, cursor string, limit int) ([]Event, error)
}

// Notification is a message to one target.
type Notification struct {
	Organization, Title, Body string
	To                        Target
	// Key makes a repeat of the notification none.
	Key string
}

// ErrRefused reports that notify will not accept a notification, now or later.
var ErrRefused = errors.New("alert: notify refuses the notification")

// Notifier sends notifications. Errors other than ErrRefused are retried.
type Notifier interface {
	Notify(ctx context.Context, n Notification) error
}

// Notice records that a rule was applied to an event.
type Notice struct {
	Organization, Rule, Type, Subject string
	Event                             string
	At                                time.Time
}

// State is the state of the dispatch, in the transaction in which a replica alone applies rules.
type State interface {
	// Rules returns the rules of an organization.
	Rules(ctx context.Context, organization string) ([]Rule, error)
	// Last returns the last notice of the same rule, type and subject; zero for none.
	Last(ctx context.Context, n Notice) (Notice, error)
	// Put records a notice.
	Put(ctx context.Context, n Notice) error
}

// Store keeps the state of the dispatch.
type Store interface {
	// Alone calls do with the cursor of the last event that is done, and commits the cursor that do returns, unless another
	// replica is at it; then it does nothing. If do returns an error, the cursor and the state are committed all the same.
	Alone(ctx context.Context, do func(ctx context.Context, done string, s State) (string, error)) error
	// Purge forgets the notices from before a moment.
	Purge(ctx context.Context, before time.Time) error
}

// Dispatcher applies the rules to events.
type Dispatcher struct {
	feed     Feed
	notifier Notifier
	store    Store
	log      *slog.Logger
	sent     metric.Int64Counter
}

// NewDispatcher returns a Dispatcher that does nothing until Run.
func NewDispatcher(feed Feed, notifier Notifier, store Store, log *slog.Logger, meter metric.Meter) (*Dispatcher, error) {
	sent, err := meter.Int64Counter("switchyard.control.alerts",
		metric.WithUnit("{notification}"), metric.WithDescription("Notifications of alert rules by channel and result (sent, refused, failed)."))
	if err != nil {
		return nil, fmt.Errorf("alerts: %w", err)
	}
	return &Dispatcher{feed, notifier, store, log, sent}, nil
}

// Run applies rules until ctx ends. It is a part of the service's lifecycle.
func (d *Dispatcher) Run(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: followEvery, Log: d.log, Name: "alert rules",
		Do: func(ctx context.Context) error { return lifecycle.UntilDone(ctx, pageSize, pageTime, d.page) },
	}.Run(ctx)
}

// Upkeep forgets the notices from before the longest quiet time, until ctx ends. It is a part of the service's lifecycle.
func (d *Dispatcher) Upkeep(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: purgeEvery, Log: d.log, Name: "upkeep of alerts",
		Do: func(ctx context.Context) error { return d.store.Purge(ctx, time.Now().Add(-MaxRepeat-24*time.Hour)) },
	}.Run(ctx)
}

// page applies the rules to a page of events, and returns how many it read.
func (d *Dispatcher) page(ctx context.Context, limit int) (read int, err error) {
	err = d.store.Alone(ctx, func(ctx context.Context, done string, s State) (string, error) {
		events, err := d.feed.After(ctx, done, limit)
		if err != nil {
			return done, err
		}
		for i := range events {
			if err := d.apply(ctx, &events[i], s); err != nil {
				return done, err
			}
			done = events[i].Cursor
			read++
		}
		return done, nil
	})
	return read, err
}

// apply notifies of an event by each rule that selects it and is not quiet about its subject.
func (d *Dispatcher) apply(ctx context.Context, e *Event, s State) error {
	rules, err := s.Rules(ctx, e.Organization)
	if err != nil {
		return err
	}
	for i := range rules {
		r := &rules[i]
		if !r.Matches(e.Type, e.Data) {
			continue
		}
		next := Notice{Organization: e.Organization, Rule: r.Name, Type: e.Type, Subject: e.Subject, Event: e.ID, At: e.RecordedAt}
		last, err := s.Last(ctx, next)
		if err != nil {
			return err
		}
		if Done(last, next) || Silent(last, next, r.Quiet()) {
			continue
		}
		if err := d.notify(ctx, e, r); err != nil {
			return err
		}
		if err := s.Put(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// Done reports whether a rule was applied to an event before, in an attempt that ended before the event's other rules.
func Done(last, next Notice) bool { return last.Event != "" && last.Event == next.Event }

// Silent reports whether a rule stays quiet about an event: its last one is of less than quiet before.
func Silent(last, next Notice, quiet time.Duration) bool {
	return last.Event != "" && last.Event != next.Event && next.At.Before(last.At.Add(quiet))
}

// notify sends an event to each target of a rule. A target that notify refuses does not keep the others from it.
func (d *Dispatcher) notify(ctx context.Context, e *Event, r *Rule) error {
	title, body := Text(e)
	for i, to := range r.To {
		err := d.notifier.Notify(ctx, Notification{
			Organization: e.Organization, Title: title, Body: body, To: to, Key: key(e, r, i),
		})
		result := "sent"
		switch {
		case errors.Is(err, ErrRefused):
			result = "refused"
			d.log.WarnContext(ctx, "an alert is refused", slog.String("organization", e.Organization), slog.String("rule", r.Name),
				slog.String("channel", to.Channel), slog.String("error", err.Error()))
		case err != nil:
			result = "failed"
		}
		d.sent.Add(ctx, 1, metric.WithAttributes(attribute.String("channel", to.Channel), attribute.String("result", result)))
		if result == "failed" {
			return fmt.Errorf("notify by rule: %w", err)
		}
	}
	return nil
}

// key returns the idempotency key of an event at a target of a rule.
func key(e *Event, r *Rule, target int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", r.Name, e.ID, target))
	return "alert-" + hex.EncodeToString(sum[:16])
}
