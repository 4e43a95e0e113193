// Package send owns notifications as they are accepted and what became of them.
// internal/api calls it; internal/postgres keeps its outbox.
package send

import (
	"context"
	"crypto/sha256"
	"fmt"

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

	ID    uuid.UUID
	Works []channel.Work
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

// Service accepts requests.
type Service struct {
	registry channel.Registry
	outbox   Outbox
}

// NewService returns a Service that sends by the channels of registry.
func NewService(registry channel.Registry, outbox Outbox) *Service {
	return &Service{registry: registry, outbox: outbox}
}

// Accept commits a request with the work of all its channels, or refuses the
// whole of it.
func (s *Service) Accept(ctx context.Context, r Request) (Receipt, error) {
	works, err := s.registry.Prepare(r.Channels, r.Message)
	if err != nil {
		return Receipt{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Receipt{}, fmt.Errorf("make id: %w", err)
	}
	receipt, err := s.outbox.Accept(ctx, Accepted{Request: r, ID: id, Works: works})
	if err != nil {
		return Receipt{}, fmt.Errorf("accept notification: %w", err)
	}
	return receipt, nil
}
