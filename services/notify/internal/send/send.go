// Package send owns notifications as they are accepted and what became of them.
// internal/api calls it; internal/postgres keeps its outbox.
package send

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/platform/apierr"
)

// ReasonKeyReused says that an idempotency key came with another request.
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
	// IdempotencyKey within the organization; empty for none.
	IdempotencyKey string
	// Fingerprint tells two requests under one key apart.
	Fingerprint [sha256.Size]byte
}

// Accepted is a request that will be sent, with an id and its work.
type Accepted struct {
	Request

	ID uuid.UUID
	// Works of its channels, their bodies sealed.
	Works []channel.Work
	// Lifetime from the commit on, after which no attempt begins.
	Lifetime time.Duration
}

// Receipt says under which id a request was accepted.
type Receipt struct {
	ID uuid.UUID
	// Replayed tells that an earlier request with the same key was.
	Replayed bool
}

// Outbox stores what is accepted.
type Outbox interface {
	// Accept commits a, all or nothing, or finds what its idempotency key was
	// used for. It returns ErrKeyReused when that was another request.
	Accept(ctx context.Context, a Accepted) (Receipt, error)
}

// Sealer encrypts work for its owner.
type Sealer interface {
	Seal(text []byte, owner string) []byte
}

// Options of a Service.
type Options struct {
	Registry channel.Registry
	Outbox   Outbox
	// Sealer may be nil while no registered channel has work to keep.
	Sealer Sealer
	// Lifetime of a notification: after it no attempt begins.
	Lifetime time.Duration
	// Wake tells a channel's dispatcher that there is work; nil for none to tell.
	Wake func(name channel.Name)
}

// Service accepts requests.
type Service struct{ o Options }

// NewService returns a Service.
func NewService(o Options) *Service { return &Service{o} }

// Accept commits a request with the work of all its channels, or refuses the
// whole of it.
func (s *Service) Accept(ctx context.Context, r Request) (Receipt, error) {
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
	receipt, err := s.o.Outbox.Accept(ctx, Accepted{Request: r, ID: id, Works: works, Lifetime: s.o.Lifetime})
	if err != nil {
		return Receipt{}, fmt.Errorf("accept notification: %w", err)
	}
	if s.o.Wake != nil && !receipt.Replayed {
		for _, work := range works {
			s.o.Wake(work.Channel)
		}
	}
	return receipt, nil
}

// Owner is what the work of a channel is sealed for.
func Owner(notification uuid.UUID, name channel.Name) string {
	return notification.String() + "/" + string(name)
}
