package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// tries is how often a transaction is tried that ends in a conflict.
const tries = 3

// Store persists jobs. A job that does not exist, or belongs to another owner, is an apierr of kind not found.
type Store interface {
	// Count returns how many deliveries a job would resend.
	Count(ctx context.Context, organization, owner string, f Filter) (int, error)
	// Create counts the deliveries and commits a job. If the key was used before, it returns the first job, or fails with
	// delivery.ErrKeyReused if that job was for another request. Unless it fails, it stores the draft's count as well.
	Create(ctx context.Context, d Draft) (r Replay, deduplicated bool, err error)
	Get(ctx context.Context, organization, owner string, id delivery.ID) (Replay, error)
	// List returns jobs with ids below before, newest first.
	List(ctx context.Context, organization, owner string, before delivery.ID, limit int) ([]Replay, error)
	// Cancel ends a job that has not ended.
	Cancel(ctx context.Context, id delivery.ID) error
}

// Service creates and reads jobs.
type Service struct {
	store Store
	now   func() time.Time
}

// NewService returns a Service.
func NewService(store Store, now func() time.Time) *Service { return &Service{store, now} }

// Request is a job as the caller requested it, with its organization and owner determined.
type Request struct {
	Organization, Owner string
	Filter              Filter
	DryRun              bool
	// MaxAttempts is nil for as many as before.
	MaxAttempts   *int
	Deadline      time.Time
	RatePerSecond float64
	Key           string
	// Count is the call's count; nil for a call that counts nothing, and for a dry run, which stores nothing.
	Count *callcount.Count
}

// Created is the result of a Request.
type Created struct {
	Replay

	Deduplicated bool
}

// Create starts a job, or for a dry run counts what it would resend.
func (s *Service) Create(ctx context.Context, r Request) (Created, error) {
	now := s.now()
	texts := map[string]string{"organization_id": r.Organization, "owner_id": r.Owner, "idempotency_key": r.Key}
	if err := delivery.CheckTexts(texts); err != nil {
		return Created{}, err
	}
	if err := errors.Join(r.Filter.check(), delivery.CheckDeadline(r.Deadline, now)); err != nil {
		return Created{}, apierr.From(err)
	}
	if r.DryRun {
		return s.count(ctx, r, now)
	}
	draft := Draft{
		ID: delivery.NewID(now), Organization: r.Organization, Owner: r.Owner, Filter: r.Filter,
		MaxAttempts: delivery.Clamp(r.MaxAttempts, 0), Deadline: r.Deadline, RatePerSecond: r.RatePerSecond, Key: r.Key,
		Count: r.Count,
	}
	var err error
	if draft.Fingerprint, err = fingerprint(draft); err != nil {
		return Created{}, err
	}
	var created Created
	for try := 1; ; try++ {
		created.Replay, created.Deduplicated, err = s.store.Create(ctx, draft)
		if !errors.Is(err, delivery.ErrConflict) || try == tries {
			break
		}
	}
	if err != nil {
		return Created{}, fmt.Errorf("create replay: %w", err)
	}
	return created, nil
}

func (s *Service) count(ctx context.Context, r Request, now time.Time) (Created, error) {
	matched, err := s.store.Count(ctx, r.Organization, r.Owner, r.Filter)
	if err != nil {
		return Created{}, fmt.Errorf("count: %w", err)
	}
	return Created{Replay: Replay{
		Organization: r.Organization, Owner: r.Owner, Filter: r.Filter, DryRun: true, Status: StatusCounted, Matched: matched,
		Created: now, Updated: now, Finished: now,
	}}, nil
}

// Get returns a job. A job of another organization is not found, nor one of another owner when owner is set.
func (s *Service) Get(ctx context.Context, organization, owner, id string) (Replay, error) {
	if err := delivery.CheckTexts(map[string]string{"organization_id": organization, "owner_id": owner}); err != nil {
		return Replay{}, err
	}
	parsed, err := delivery.ParseID(id)
	if err != nil {
		return Replay{}, apierr.NotFound("replay").Wrap(err)
	}
	r, err := s.store.Get(ctx, organization, owner, parsed)
	if err != nil {
		return Replay{}, fmt.Errorf("get replay: %w", err)
	}
	return r, nil
}

// List returns jobs with ids below before (delivery.LastID for the first page), newest first; next is zero on the
// last page.
func (s *Service) List(ctx context.Context, organization, owner string, before delivery.ID, limit int) (page []Replay, next delivery.ID, err error) {
	if err := delivery.CheckTexts(map[string]string{"organization_id": organization, "owner_id": owner}); err != nil {
		return nil, delivery.ID{}, err
	}
	page, err = s.store.List(ctx, organization, owner, before, limit+1)
	if err != nil {
		return nil, delivery.ID{}, fmt.Errorf("list replays: %w", err)
	}
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID
	}
	return page, next, nil
}

// Cancel ends a job that is visible to the caller; deliveries already resent remain. Cancelling again changes
// nothing; a job that has ended otherwise is a conflict.
func (s *Service) Cancel(ctx context.Context, organization, owner, id string) (Replay, error) {
	r, err := s.Get(ctx, organization, owner, id)
	if err != nil {
		return Replay{}, err
	}
	if err := s.store.Cancel(ctx, r.ID); err != nil {
		return Replay{}, fmt.Errorf("cancel replay: %w", err)
	}
	r, err = s.Get(ctx, organization, owner, id)
	if err == nil && r.Status != StatusCancelled {
		err = apierr.New(apierr.KindConflict, delivery.ReasonAlreadyFinished, "the job has ended: it is "+string(r.Status))
	}
	return r, err
}
