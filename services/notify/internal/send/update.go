package send

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/apierr"
)

// MaxUpdates is how many updates a notification may have.
const MaxUpdates = 100

// The reasons of refused updates.
const (
	ReasonTooManyUpdates apierr.Reason = "too_many_updates"
	ReasonNotUpdatable   apierr.Reason = "not_updatable"
)

// Errors of updates.
var (
	ErrTooManyUpdates = apierr.New(apierr.KindConflict, ReasonTooManyUpdates,
		fmt.Sprintf("notification_id: has %d updates, which is the most", MaxUpdates))
	ErrNotUpdatable = apierr.New(apierr.KindConflict, ReasonNotUpdatable,
		"notification_id: was accepted by a release that kept no target for updates")
)

// Kept is what a notification keeps to be updated with.
type Kept struct {
	// Channels are those of the notification, in order.
	Channels []channel.Name
	// Sealed is its encrypted subject and target; nil for none.
	Sealed []byte
}

// kept is the content of Kept.Sealed.
type kept struct {
	Subject string         `json:"subject,omitempty"`
	Target  channel.Target `json:"target"`
}

// Updates stores updates.
type Updates interface {
	// Kept returns what an organization's notification keeps, or ErrNotFound. An update is no notification.
	Kept(ctx context.Context, organization string, id uuid.UUID) (Kept, error)
	// Update commits a, an update of a.Message.Updates, all or nothing. Messages of the notification that nothing is
	// being sent of end unsent. If its idempotency key was used before, it returns that request's receipt, or ErrKeyReused
	// if that request was another one. It returns ErrNotFound or ErrTooManyUpdates. Unless it fails, it stores the count as
	// well.
	Update(ctx context.Context, a Accepted) (Receipt, error)
}

// Update commits an update of the notification r.Message.Updates, or refuses it as a whole. Of the message it reads
// organization, subject, text and actions; the channels are those of the notification, and so is the target.
func (s *Service) Update(ctx context.Context, r Request) (Receipt, error) {
	of, err := s.o.Updates.Kept(ctx, r.Message.Organization, r.Message.Updates)
	if err != nil {
		return Receipt{}, err
	}
	if r, err = s.restore(r, of); err != nil {
		return Receipt{}, err
	}
	return s.accept(ctx, r, s.o.Updates.Update)
}

// restore fills in what an update has from its notification.
func (s *Service) restore(r Request, of Kept) (Request, error) {
	r.Channels = of.Channels
	callsOut := slices.ContainsFunc(of.Channels, func(name channel.Name) bool { return name != channel.InApp })
	if of.Sealed == nil || s.o.Opener == nil {
		if callsOut {
			return r, ErrNotUpdatable
		}
		return r, nil // The record keeps what an update does not change.
	}
	text, err := s.o.Opener.Open(of.Sealed, targetOwner(r.Message.Updates))
	if err != nil {
		return r, fmt.Errorf("open target: %w", err)
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return r, errors.New("the target of a notification cannot be read")
	}
	r.Message.Target = k.Target
	if r.Message.Subject == "" {
		r.Message.Subject = k.Subject
	}
	return r, nil
}

// keep returns what a notification is updated with, sealed; nil while there is no key to seal with.
func (s *Service) keep(m channel.Message) ([]byte, error) {
	if s.o.Sealer == nil || m.Updates != uuid.Nil {
		return nil, nil
	}
	if len(m.Target.Data) > inbox.MaxData { // Not read by any of its channels, or it would have been refused.
		m.Target.Data = nil
	}
	text, err := json.Marshal(kept{m.Subject, m.Target})
	if err != nil {
		return nil, fmt.Errorf("encode target: %w", err)
	}
	return s.o.Sealer.Seal(text, targetOwner(m.ID)), nil
}

// targetOwner returns what the sealed target of a notification is bound to.
func targetOwner(id uuid.UUID) string { return id.String() + "/target" }
