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
	// stepTime bounds the reading of a page, and a turn.
	stepTime = 20 * time.Second
	// turnTime is the time after which an organization begins no further rule in its turn.
	turnTime = 200 * time.Millisecond
	// maxRetry is the longest wait after a turn that failed.
	maxRetry = time.Minute
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
	// After returns at most limit events of an organization after the one with a cursor, oldest first. If organization is
	// empty, it returns every organization's events; if cursor is empty, it begins with the oldest event.
	After(ctx context.Context, organization, cursor string, limit int) ([]Event, error)
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

// Progress is the position in the feed up to which an organization's rules are applied.
type Progress struct {
	Organization, Cursor string
	// DueAt is when the organization's next turn may begin; zero if none of its events wait.
	DueAt time.Time
	// Failures is how many turns in a row failed.
	Failures int
}

// State is the state of the dispatch, in the transaction in which a replica alone applies rules. The end of ctx does
// not interrupt what it writes.
type State interface {
	// Wait marks organizations with waiting events as due, except those that are due already or have no rules. before
	// maps each organization to the position before its first event, where an organization without progress begins.
	Wait(ctx context.Context, before map[string]string, now time.Time) error
	// Next returns the organization that is due the longest; false if none is.
	Next(ctx context.Context, now time.Time) (Progress, bool, error)
	// Save changes the progress of an organization.
	Save(ctx context.Context, p Progress) error
	// Postpone adds a failure to the progress of an organization, and makes it due at a moment.
	Postpone(ctx context.Context, organization string, due time.Time) error
	// Rules returns the rules of an organization.
	Rules(ctx context.Context, organization string) ([]Rule, error)
	// Last returns the last notice of the same rule, type and subject; zero for none.
	Last(ctx context.Context, n Notice) (Notice, error)
	// Put records a notice.
	Put(ctx context.Context, n Notice) error
}

// Store keeps the state of the dispatch.
type Store interface {
	// Alone calls do with the cursor of the last event that was read, and commits the cursor that do returns, unless
	// another replica is at it; then it does nothing. If do returns an error, the cursor and the state are committed all
	// the same.
	Alone(ctx context.Context, do func(ctx context.Context, read string, s State) (string, error)) error
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
	return lifecycle.Repeat{Every: followEvery, Log: d.log, Name: "alert rules", Do: d.round}.Run(ctx)
}

// Upkeep forgets the notices from before the longest quiet time, until ctx ends. It is a part of the service's lifecycle.
func (d *Dispatcher) Upkeep(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: purgeEvery, Log: d.log, Name: "upkeep of alerts",
		Do: func(ctx context.Context) error { return d.store.Purge(ctx, time.Now().Add(-MaxRepeat-24*time.Hour)) },
	}.Run(ctx)
}

// round gives turns to organizations until none is due, and reads all new events before each turn.
func (d *Dispatcher) round(ctx context.Context) error {
	for {
		if err := lifecycle.UntilDone(ctx, pageSize, stepTime, d.follow); err != nil {
			return err
		}
		if took, err := d.turn(ctx); err != nil || !took {
			return err
		}
	}
}

// follow reads a page of every organization's new events and makes the organizations due. It returns how many events it
// read.
func (d *Dispatcher) follow(ctx context.Context, limit int) (count int, err error) {
	err = d.store.Alone(ctx, func(ctx context.Context, read string, s State) (string, error) {
		events, err := d.feed.After(ctx, "", read, limit)
		if err != nil || len(events) == 0 {
			return read, err
		}
		if err := s.Wait(ctx, positions(read, events), time.Now()); err != nil {
			return read, err
		}
		count = len(events)
		return events[count-1].Cursor, nil
	})
	return count, err
}

// positions returns for each organization the position before its first event.
func positions(read string, events []Event) map[string]string {
	before := make(map[string]string)
	for i := range events {
		if _, ok := before[events[i].Organization]; !ok {
			before[events[i].Organization] = read
		}
		read = events[i].Cursor
	}
	return before
}

// turn applies the rules of the organization that is due the longest. It reports false if none is due. An organization
// whose turn fails is due again after a backoff, and delays no other organization.
func (d *Dispatcher) turn(ctx context.Context) (took bool, err error) {
	var p Progress
	err = lifecycle.Protect(ctx, "turn of alert rules", func() error {
		ctx, cancel := context.WithTimeout(ctx, stepTime)
		defer cancel()
		return d.alone(ctx, func(ctx context.Context, s State) (err error) {
			if p, took, err = s.Next(ctx, time.Now()); err != nil || !took {
				return err
			}
			p, err = d.advance(ctx, p, s)
			return errors.Join(err, s.Save(ctx, p))
		})
	})
	if err == nil || !took || ctx.Err() != nil {
		return took, err
	}
	if p.Failures == 0 {
		d.log.WarnContext(ctx, "alerts of an organization are failing and will be tried again",
			slog.String("organization", p.Organization), slog.String("error", err.Error()))
	}
	return true, d.alone(ctx, func(ctx context.Context, s State) error {
		return s.Postpone(ctx, p.Organization, time.Now().Add(Backoff(p.Failures, maxRetry)))
	})
}

// alone runs a step that reads no new events.
func (d *Dispatcher) alone(ctx context.Context, do func(ctx context.Context, s State) error) error {
	return d.store.Alone(ctx, func(ctx context.Context, read string, s State) (string, error) { return read, do(ctx, s) })
}

// Backoff returns a second, doubled for each failure, but at most longest.
func Backoff(failures int, longest time.Duration) time.Duration {
	return min(time.Second<<min(max(failures, 0), 20), longest)
}

// advance applies an organization's rules to its next events until its turn is over, and returns its new progress.
func (d *Dispatcher) advance(ctx context.Context, p Progress, s State) (Progress, error) {
	rules, err := s.Rules(ctx, p.Organization)
	if err != nil {
		return p, err
	}
	events, err := d.feed.After(ctx, p.Organization, p.Cursor, pageSize)
	if err != nil {
		return p, err
	}
	done, over := 0, time.Now().Add(turnTime)
	for done < len(events) && (done == 0 || time.Now().Before(over)) {
		all, err := d.apply(ctx, &events[done], rules, over, s)
		if err != nil {
			return p, err
		}
		if !all {
			break
		}
		p.Cursor = events[done].Cursor
		done++
	}
	p.DueAt, p.Failures = time.Time{}, 0
	if done < len(events) || done == pageSize {
		p.DueAt = time.Now()
	}
	return p, nil
}

// apply notifies of an event by each rule that selects it and is not quiet about its subject. It reports false if the
// turn is over before all rules are applied; at least one is.
func (d *Dispatcher) apply(ctx context.Context, e *Event, rules []Rule, over time.Time, s State) (all bool, err error) {
	notified := false
	for i := range rules {
		r := &rules[i]
		if !r.Matches(e.Type, e.Data) {
			continue
		}
		next := Notice{Organization: e.Organization, Rule: r.Name, Type: e.Type, Subject: e.Subject, Event: e.ID, At: e.RecordedAt}
		last, err := s.Last(ctx, next)
		if err != nil {
			return false, err
		}
		if Done(last, next) || Silent(last, next, r.Quiet()) {
			continue
		}
		if notified && !time.Now().Before(over) {
			return false, nil
		}
		if err := d.notify(ctx, e, r); err != nil {
			return false, err
		}
		if err := s.Put(ctx, next); err != nil {
			return false, err
		}
		notified = true
	}
	return true, nil
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
