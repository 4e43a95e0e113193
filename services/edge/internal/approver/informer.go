package approver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/seal"
)

const (
	// followEvery is the interval at which approvals are followed, batchSize how many events, approvals or notices are worked
	// on at once.
	followEvery, batchSize = time.Second, 20
	// roundTime bounds each of the steps of a round.
	roundTime = 20 * time.Second
	// purgeEvery is the interval at which old approvals are forgotten, keptTime how long they are kept after they expired.
	purgeEvery, keptTime = time.Hour, 30 * 24 * time.Hour
)

// ErrGone reports that the gateway has no such approval, or that it is not pending any more.
var ErrGone = errors.New("approver: the approval is not pending")

// ErrRefused reports that the gateway will not give a member a token, now or later: the call may be the member's own.
var ErrRefused = errors.New("approver: the gateway refuses the member")

// Present is an approval as it is at the gateway.
type Present struct {
	// State is the approval's state.
	State, DecidedBy string
	// Group is the name of the group that decides.
	Group     string
	ExpiresAt time.Time
	Cents     float64
}

// Gateway reads approvals and mints tokens for them. Errors other than this package's are retried.
type Gateway interface {
	// Approval returns the present state of an approval, or ErrGone if it does not exist.
	Approval(ctx context.Context, organization, ref string) (Present, error)
	// Mint returns a token by which a member decides, ErrGone if there is nothing to decide, or ErrRefused.
	Mint(ctx context.Context, organization, ref, member, channel string) (string, error)
	// Version returns the version of the approval that a token shows, or ErrGone.
	Version(ctx context.Context, token string) (string, error)
}

// Notifier sends messages. Errors other than alert.ErrRefused are retried.
type Notifier interface {
	// Send returns the id of the notification. Sending the same message again notifies no one and returns the same id.
	Send(ctx context.Context, organization string, m Message) (notification string, err error)
	// Update replaces the text of a notification.
	Update(ctx context.Context, organization, notification string, m Message) error
}

// State is the state of the informer, in the transaction in which a replica alone works on it.
type State interface {
	Groups(ctx context.Context, organization string) ([]Group, error)
	// Open adds an approval that waits with its notices, which get their ids. One that is known is left as it is.
	Open(ctx context.Context, a Approval, notices []Notice) error
	// Close gives an approval that waits its end, and each of its notices the state After; others are left as they are.
	Close(ctx context.Context, a Approval) error
	// Overdue returns waiting approvals that expired before now and whose NextCheck has come. Organizations take turns:
	// first come the approvals that are due the longest of each organization.
	Overdue(ctx context.Context, now time.Time, limit int) ([]Approval, error)
	// Postpone saves an approval's Checks and NextCheck.
	Postpone(ctx context.Context, a Approval) error
	// Due returns notices in a state whose time has come. Organizations take turns, as for Overdue.
	Due(ctx context.Context, state string, now time.Time, limit int) ([]Notice, error)
	// Save changes a notice: State, DueAt, Attempts, Sealed and Notification.
	Save(ctx context.Context, n *Notice) error
}

// Store keeps the state of the informer.
type Store interface {
	// Alone calls do with the cursor of the last event that is done, and commits the cursor that do returns, unless another
	// replica is at it; then it does nothing. If do returns an error, the cursor and the state are committed all the same.
	Alone(ctx context.Context, do func(ctx context.Context, done string, s State) (string, error)) error
	// Purge forgets approvals that expired before a moment.
	Purge(ctx context.Context, before time.Time) error
}

// Informer notifies the approvers of approvals that wait, and updates what it sent when they are decided or expire.
type Informer struct {
	feed     alert.Feed
	gateway  Gateway
	notifier Notifier
	store    Store
	box      *seal.Box
	public   *url.URL
	log      *slog.Logger
	notices  metric.Int64Counter
}

// Options configures an Informer. All fields are required.
type Options struct {
	Feed     alert.Feed
	Gateway  Gateway
	Notifier Notifier
	Store    Store
	// Box seals messages, which hold tokens, until they are sent.
	Box *seal.Box
	// Public is the scheme and host at which members reach the page.
	Public *url.URL
	Log    *slog.Logger
	Meter  metric.Meter
}

// NewInformer returns an Informer that does nothing until Run.
func NewInformer(o Options) (*Informer, error) {
	notices, err := o.Meter.Int64Counter("switchyard.control.approval_notices",
		metric.WithUnit("{notice}"), metric.WithDescription("Notices of approvals by channel and result (sent, closed, cancelled, refused, failed)."))
	if err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	return &Informer{o.Feed, o.Gateway, o.Notifier, o.Store, o.Box, o.Public, o.Log, notices}, nil
}

// Run follows approvals until ctx ends. It is a part of the service's lifecycle.
func (i *Informer) Run(ctx context.Context) error {
	return lifecycle.Repeat{Every: followEvery, Log: i.log, Name: "approvals", Do: i.round}.Run(ctx)
}

// Upkeep forgets old approvals until ctx ends. It is a part of the service's lifecycle.
func (i *Informer) Upkeep(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: purgeEvery, Log: i.log, Name: "upkeep of approvals",
		Do: func(ctx context.Context) error { return i.store.Purge(ctx, time.Now().Add(-keptTime)) },
	}.Run(ctx)
}

// round does what is due. Each step is a transaction of its own: a message is stored before it is sent. A step that fails
// keeps none of the others from being done.
func (i *Informer) round(ctx context.Context) error {
	var errs []error
	for _, step := range []func(ctx context.Context, limit int) (int, error){i.follow, i.expire, i.prepare, i.send, i.close} {
		errs = append(errs, lifecycle.UntilDone(ctx, batchSize, roundTime, step))
	}
	return errors.Join(errs...)
}

// follow reads a page of events.
func (i *Informer) follow(ctx context.Context, limit int) (read int, err error) {
	err = i.store.Alone(ctx, func(ctx context.Context, done string, s State) (string, error) {
		events, err := i.feed.After(ctx, "", done, limit)
		if err != nil {
			return done, err
		}
		for n := range events {
			if err := i.apply(ctx, &events[n], s, time.Now()); err != nil {
				return done, err
			}
			done = events[n].Cursor
			read++
		}
		return done, nil
	})
	return read, err
}

// apply plans the notices of an approval that waits, or closes one that is decided.
func (i *Informer) apply(ctx context.Context, e *alert.Event, s State, now time.Time) error {
	a, ok := Read(e)
	switch {
	case !ok:
		return nil
	case a.State != Waiting:
		return s.Close(ctx, a)
	case !a.ExpiresAt.After(now):
		return nil
	}
	groups, err := s.Groups(ctx, a.Organization)
	if err != nil {
		return err
	}
	group := Find(groups, a.Group)
	if group == nil {
		if a.Group != Default {
			i.log.WarnContext(ctx, "an approval names a group of approvers that there is not; no approver is notified of it",
				slog.String("organization", a.Organization), slog.String("approval", a.Ref), slog.String("group", a.Group))
		}
		return nil
	}
	return s.Open(ctx, a, Plan(a, group))
}

// expire closes overdue approvals with the state that the gateway reports, since the event of a last-minute decision
// may still be on its way. It returns how many it has read. An approval that can't be read, or that still waits at the
// gateway, is read again later, so that it doesn't keep others open.
func (i *Informer) expire(ctx context.Context, limit int) (read int, err error) {
	err = i.alone(ctx, func(ctx context.Context, s State) error {
		overdue, err := s.Overdue(ctx, time.Now(), limit)
		if err != nil {
			return err
		}
		var errs []error
		for n := range overdue {
			if ctx.Err() != nil {
				break
			}
			a := overdue[n]
			_, open, err := i.present(ctx, s, a)
			if err != nil || open {
				a.NextCheck = time.Now().Add(Recheck(a.Checks, open))
				a.Checks++
				errs = append(errs, err, s.Postpone(ctx, a))
			}
			read++
		}
		return errors.Join(errs...)
	})
	return read, err
}

// present returns an approval as it is at the gateway, and closes it here if it does not wait there.
func (i *Informer) present(ctx context.Context, s State, a Approval) (found Present, open bool, err error) {
	found, err = i.gateway.Approval(ctx, a.Organization, a.Ref)
	if errors.Is(err, ErrGone) {
		found, err = Present{State: Expired}, nil
	}
	if err != nil || found.State == Waiting {
		return found, err == nil, err
	}
	a.State, a.DecidedBy, a.ClosedAt = found.State, alert.Line(found.DecidedBy, maxField), time.Now()
	return found, false, s.Close(ctx, a)
}

// alone runs a step that reads no events.
func (i *Informer) alone(ctx context.Context, do func(ctx context.Context, s State) error) error {
	return i.store.Alone(ctx, func(ctx context.Context, done string, s State) (string, error) { return done, do(ctx, s) })
}

// each does one thing with each notice in a state that is due, and returns how many there were. One that fails is due again
// later; the others are done all the same.
func (i *Informer) each(ctx context.Context, state string, limit int, do func(ctx context.Context, s State, n *Notice) error) (count int, err error) {
	err = i.alone(ctx, func(ctx context.Context, s State) error {
		notices, err := s.Due(ctx, state, time.Now(), limit)
		if err != nil {
			return err
		}
		var errs []error
		for k := range notices {
			if ctx.Err() != nil {
				break
			}
			n := &notices[k]
			if err := do(ctx, s, n); err != nil {
				i.count(ctx, n, "failed")
				n.DueAt = time.Now().Add(Retry(n.Attempts))
				n.Attempts++
				errs = append(errs, err, s.Save(ctx, n))
			}
			count++
		}
		return errors.Join(errs...)
	})
	return count, err
}
