package delivery

import (
	"context"
	"errors"
	"fmt"

	"switchyard.dev/services/platform/apierr"
)

// EnqueueBatch commits all requests in one transaction, or none. If one is refused, all are, and the error names its
// index; first is the index of the first request. The results are in the order of the requests.
func (s *Service) EnqueueBatch(ctx context.Context, requests []Request, first int) ([]Accepted, error) {
	drafts := make([]*Draft, len(requests))
	for i, r := range requests {
		draft, err := s.accept(ctx, r)
		if err != nil {
			return nil, InItem(first+i, err)
		}
		draft.AllOrNone = true
		drafts[i] = draft
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	stored, err := s.store(ctx, drafts)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return nil, InItem(first+refused.Place, refused.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue batch: %w", err)
	}
	accepted := make([]Accepted, len(stored))
	for i, one := range stored {
		accepted[i] = Accepted{Stored: one, Organization: drafts[i].Organization, Key: drafts[i].Key}
	}
	return accepted, nil
}

// RefusedError says that a batch is refused because its draft at index Place is refused with Err.
type RefusedError struct {
	Place int
	Err   error
}

// Error implements error.
func (e *RefusedError) Error() string { return fmt.Sprintf("draft %d: %v", e.Place, e.Err) }

// Unwrap returns why the draft is refused.
func (e *RefusedError) Unwrap() error { return e.Err }

// InItem adds the index of the refused item of a batch to an error.
func InItem(place int, err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		named := *e
		named.Text = fmt.Sprintf("deliveries[%d].%s", place, e.Text)
		return &named
	}
	return fmt.Errorf("deliveries[%d]: %w", place, err)
}
