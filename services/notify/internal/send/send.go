// Package send owns the acceptance of notifications and their delivery logs. internal/api calls it; internal/postgres
// stores its outbox.
package send

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
)

// ReasonKeyReused means that an idempotency key was used with another request.
const ReasonKeyReused apierr.Reason = "idempotency_key_reused"

// Errors of the outbox.
var (
	ErrNotFound  = apierr.NotFound("notification")
	ErrKeyReused = apierr.New(apierr.KindUnprocessable, ReasonKeyReused,
		"idempotency_key: was used with another request")
)

// Request is a message and the channels to send it by.
type Request struct {
	Message  channel.Message
	Channels []channel.Name
	// IdempotencyKey is unique within the organization; empty for none.
	IdempotencyKey string
	// Fingerprint distinguishes two requests with the same key.
	Fingerprint [sha256.Size]byte
	// Count is the call's count; nil for a call that counts nothing.
	Count *callcount.Count
}

// Accepted is a request with an id and its work.
type Accepted struct {
	Request

	ID uuid.UUID
	// Works are those of its channels, their bodies sealed.
	Works []channel.Work
	// Kept is what it is updated with, sealed; nil for an update, and for none.
	Kept []byte
	// Lifetime counts from the commit; no attempt begins after it.
	Lifetime time.Duration
}

// Receipt is the result of accepting a request.
type Receipt struct {
	ID uuid.UUID
	// Replayed reports that ID is that of an earlier request with the same key.
	Replayed bool
	// Number is the place of an update among those of its notification, from 1; zero for a notification.
	Number int
	// Changed is the inbox that an update has changed; nil for none.
	Changed *inbox.Address
	// Channels are those that it goes to.
	Channels []channel.Name
}

// Outbox stores accepted requests.
type Outbox interface {
	// Accept commits a, all or nothing. If its idempotency key was used before, it returns that request's receipt, or
	// ErrKeyReused if that request was another one. Unless it fails, it stores the count as well.
	Accept(ctx context.Context, a Accepted) (Receipt, error)
}

// Sealer encrypts work. The result is bound to owner.
type Sealer interface {
	Seal(text []byte, owner string) []byte
}

// Opener decrypts what a Sealer has encrypted for the same owner.
type Opener interface {
	Open(sealed []byte, owner string) ([]byte, error)
}

// Options configures a Service.
type Options struct {
	Registry channel.Registry
	Outbox   Outbox
	Updates  Updates
	// Sealer and Opener may be nil while no registered channel has work to store.
	Sealer Sealer
	Opener Opener
	// Lifetime is how long a notification is tried; no attempt begins after it.
	Lifetime time.Duration
	// Wake notifies a channel's dispatcher that there is work; it may be nil.
	Wake func(name channel.Name)
}

// Service accepts requests.
type Service struct{ o Options }

// NewService returns a Service.
func NewService(o Options) *Service { return &Service{o} }

// Accept commits a request with the work of all its channels, or refuses it as a whole.
func (s *Service) Accept(ctx context.Context, r Request) (Receipt, error) {
	return s.accept(ctx, r, s.o.Outbox.Accept)
}

// accept prepares a request and commits it by store.
func (s *Service) accept(ctx context.Context, r Request, store func(context.Context, Accepted) (Receipt, error)) (Receipt, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Receipt{}, fmt.Errorf("make id: %w", err)
	}
	r.Message.ID = id
	works, err := s.o.Registry.Prepare(ctx, r.Channels, r.Message)
	if err != nil {
		return Receipt{}, err
	}
	for i := range works {
		if works[i].Body != nil {
			works[i].Body = s.o.Sealer.Seal(works[i].Body, Owner(id, works[i].Channel))
		}
	}
	r.Message = r.Message.Public() // Only the works have its secret.
	target, err := s.keep(r.Message)
	if err != nil {
		return Receipt{}, err
	}
	receipt, err := store(ctx, Accepted{Request: r, ID: id, Works: works, Kept: target, Lifetime: s.o.Lifetime})
	if err != nil {
		return Receipt{}, fmt.Errorf("accept notification: %w", err)
	}
	receipt.Channels = r.Channels
	if s.o.Wake != nil && !receipt.Replayed {
		for _, work := range works {
			s.o.Wake(work.Channel)
		}
	}
	return receipt, nil
}

// Owner returns what the sealed work of a channel is bound to.
func Owner(notification uuid.UUID, name channel.Name) string {
	return notification.String() + "/" + string(name)
}
