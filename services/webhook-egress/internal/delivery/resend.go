package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Resend is a checked request for a new series of attempts of an ended delivery.
type Resend struct {
	Organization, Owner string
	ID                  ID
	// MaxAttempts is zero for as many as before; Deadline is the zero time for none.
	MaxAttempts int
	Deadline    time.Time
	// Key is the idempotency key, unique within the organization and owner; empty for none. Fingerprint identifies the
	// request that it is used for.
	Key         string
	Fingerprint [32]byte
}

// Resent is the result of a Resend.
type Resent struct {
	// Deduplicated reports that the key was used before and that nothing changed.
	Deduplicated bool
}

// ResendRequest is a resend as the caller requested it.
type ResendRequest struct {
	Organization, Owner, ID string
	MaxAttempts             *int
	Deadline                time.Time
	Key                     string
}

// Resend starts a new series of attempts of a delivery that is visible to the caller and has ended. A repeat with the
// same key changes nothing.
func (s *Service) Resend(ctx context.Context, r ResendRequest) (record Record, deduplicated bool, err error) {
	if err := CheckTexts(map[string]string{"idempotency_key": r.Key}); err != nil {
		return Record{}, false, err
	}
	if err := CheckDeadline(r.Deadline, s.o.Now()); err != nil {
		return Record{}, false, err
	}
	record, err = s.Get(ctx, r.Organization, r.Owner, r.ID, false)
	if err != nil {
		return Record{}, false, err
	}
	var resent Resent
	err = retryConflicts(func() (err error) {
		resent, err = s.o.Store.Resend(ctx, Resend{
			Organization: r.Organization, Owner: r.Owner, ID: record.ID, MaxAttempts: Clamp(r.MaxAttempts, 0),
			Deadline: r.Deadline, Key: r.Key,
			Fingerprint: Fingerprint([]string{record.ID.String()}, Asked{MaxAttempts: r.MaxAttempts, Deadline: r.Deadline}),
		})
		return err
	})
	if err != nil {
		return Record{}, false, fmt.Errorf("resend: %w", err)
	}
	if !resent.Deduplicated {
		s.o.Dispatcher.Waiting()
	}
	record, err = s.Get(ctx, r.Organization, r.Owner, r.ID, false)
	return record, resent.Deduplicated, err
}

// Cancel ends a delivery that is visible to the caller. Cancelling again changes nothing; a delivery that has ended
// otherwise is a conflict.
func (s *Service) Cancel(ctx context.Context, organization, owner, id string) (Record, error) {
	record, err := s.Get(ctx, organization, owner, id, false)
	if err != nil {
		return Record{}, err
	}
	var cancelled bool
	err = retryConflicts(func() (err error) {
		cancelled, err = s.o.Store.Cancel(ctx, record.ID)
		return err
	})
	if err != nil {
		return Record{}, fmt.Errorf("cancel: %w", err)
	}
	record, err = s.Get(ctx, organization, owner, id, false)
	switch {
	case err != nil:
		return Record{}, err
	case !cancelled && record.Status != StatusCancelled:
		return Record{}, apierr.New(apierr.KindConflict, ReasonAlreadyFinished, "the delivery has ended: it is "+string(record.Status))
	}
	return record, nil
}

// retryConflicts repeats do while it ends in a conflict, up to tries times.
func retryConflicts(do func() error) error {
	for try := 1; ; try++ {
		if err := do(); !errors.Is(err, ErrConflict) || try == tries {
			return err
		}
	}
}
