package approver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/edge/internal/alert"
)

// prepare stores the messages of notices that are due.
func (i *Informer) prepare(ctx context.Context, limit int) (int, error) {
	return i.each(ctx, Planned, limit, func(ctx context.Context, s State, n *Notice) error {
		found, open, err := i.present(ctx, s, n.Approval)
		if err != nil || !open {
			return err
		}
		facts, err := i.facts(ctx, s, n)
		switch {
		case errors.Is(err, ErrGone):
			return i.end(ctx, s, n, Cancelled, err)
		case errors.Is(err, ErrRefused):
			return i.end(ctx, s, n, Refused, err)
		case err != nil:
			return err
		}
		facts.Cents = found.Cents
		text, err := json.Marshal(Ask(n, facts)) //nolint:gosec // G117: it is sealed at once.
		if err != nil {
			return err
		}
		n.State, n.Attempts, n.DueAt, n.Sealed = Prepared, 0, time.Now(), i.box.Seal(text, n.ID)
		return s.Save(ctx, n)
	})
}

// facts returns what the message of a notice needs, with a token of its member. The error is ErrGone if the member has left
// the group or lost what the channel needs since the notice was planned.
func (i *Informer) facts(ctx context.Context, s State, n *Notice) (Facts, error) {
	f := Facts{Public: i.public, Now: time.Now()}
	if n.User == "" {
		return f, nil
	}
	groups, err := s.Groups(ctx, n.Approval.Organization)
	if err != nil {
		return f, err
	}
	group := Find(groups, n.Approval.Group)
	if group == nil {
		return f, ErrGone
	}
	if f.Member = group.Member(n.User); f.Member == nil || !f.Member.takes(n.Channel) {
		return f, ErrGone
	}
	if f.Token, err = i.gateway.Mint(ctx, n.Approval.Organization, n.Approval.Ref, n.User, n.Channel); err != nil {
		return f, err
	}
	if n.Channel == alert.WebPush {
		f.Version, err = i.gateway.Version(ctx, f.Token)
	}
	return f, err
}

// send sends prepared messages.
func (i *Informer) send(ctx context.Context, limit int) (int, error) {
	return i.each(ctx, Prepared, limit, func(ctx context.Context, s State, n *Notice) error {
		var m Message
		text, err := i.box.Open(n.Sealed, n.ID)
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil { // sealed with a pepper that was replaced
			return i.end(ctx, s, n, Refused, err)
		}
		id, err := i.notifier.Send(ctx, n.Approval.Organization, m)
		if errors.Is(err, alert.ErrRefused) {
			return i.end(ctx, s, n, Refused, err)
		}
		if err != nil {
			return err
		}
		i.count(ctx, n, "sent")
		n.State, n.Attempts, n.DueAt, n.Sealed, n.Notification = Sent, 0, time.Now(), nil, id
		if n.Approval.State != Waiting {
			n.State = After(n)
		}
		return s.Save(ctx, n)
	})
}

// close updates messages of approvals that are closed.
func (i *Informer) close(ctx context.Context, limit int) (int, error) {
	return i.each(ctx, Closing, limit, func(ctx context.Context, s State, n *Notice) error {
		err := i.notifier.Update(ctx, n.Approval.Organization, n.Notification, Result(n))
		late := time.Since(n.Approval.ClosedAt) > closeTime
		if err != nil && !errors.Is(err, alert.ErrRefused) && !late {
			return err
		}
		return i.end(ctx, s, n, Closed, err)
	})
}

// end gives a notice its last state. why is logged if it is not nil.
func (i *Informer) end(ctx context.Context, s State, n *Notice, state string, why error) error {
	if why != nil {
		i.log.WarnContext(ctx, "a notice of an approval ends early", slog.String("organization", n.Approval.Organization),
			slog.String("approval", n.Approval.Ref), slog.String("channel", n.Channel), slog.String("state", state), slog.String("error", why.Error()))
	}
	i.count(ctx, n, state)
	n.State, n.Attempts, n.Sealed = state, 0, nil
	return s.Save(ctx, n)
}

func (i *Informer) count(ctx context.Context, n *Notice, result string) {
	i.notices.Add(ctx, 1, metric.WithAttributes(attribute.String("channel", n.Channel), attribute.String("result", result)))
}
