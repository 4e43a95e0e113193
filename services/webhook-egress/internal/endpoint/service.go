package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

const (
	// cancelPage bounds how many deliveries one transaction cancels, cancelPages how many such transactions a
	// deletion runs itself; Run does the rest.
	cancelPage, cancelPages = 1000, 20
	// sweepPause is the interval at which Run looks for the rest.
	sweepPause = 5 * time.Second
	// pingType is the event type of a test that names none.
	pingType = "switchyard.ping"
)

// Store persists endpoints. An endpoint that does not exist, or belongs to another owner, is an apierr of kind not
// found.
type Store interface {
	// Add stores an endpoint. It fails with an apierr of kind conflict if its organization already has limit
	// endpoints.
	Add(ctx context.Context, e Endpoint, limit int) error
	Get(ctx context.Context, s Scope, id delivery.ID) (Endpoint, error)
	// List returns endpoints with ids below before, newest first.
	List(ctx context.Context, f Filter, before delivery.ID, limit int) ([]Endpoint, error)
	// Update changes an endpoint and its flow; concurrent updates wait.
	Update(ctx context.Context, s Scope, id delivery.ID, change func(Endpoint) (Endpoint, error)) (Endpoint, error)
	Delete(ctx context.Context, s Scope, id delivery.ID) error
	// CancelDeleted cancels at most limit deliveries that are queued for deleted endpoints. It reports whether there
	// may be more.
	CancelDeleted(ctx context.Context, limit int) (more bool, err error)
}

// Deliverer sends test deliveries, as delivery.Service does.
type Deliverer interface {
	SendTest(ctx context.Context, t delivery.TestDelivery) (delivery.Record, *delivery.Attempt, error)
}

// Filters checks filters, as filter.Engine does.
type Filters interface {
	// Check refuses an organization's expression that can't be compiled or may cost too much, and all of its expressions
	// while it has compiled too many; the empty one is accepted.
	Check(organization, expression string) error
}

// Waker is notified of flows that may continue.
type Waker interface {
	Waiting()
}

// Options configures a Service. With a nil Sealer no endpoint may have a secret; with a nil Opener stored secrets are not
// judged.
type Options struct {
	Store     Store
	Deliverer Deliverer
	Waker     Waker
	Targets   *delivery.Targets
	Filters   Filters
	Sealer    delivery.Sealer
	Opener    Opener
	Secrets   Secrets
	// Keys are those of asymmetric signatures; nil for none.
	Keys *signing.KeySet
	// Limit is how many endpoints an organization may have.
	Limit int
	Log   *slog.Logger
	Now   func() time.Time
}

// Service is the registry of endpoints.
type Service struct{ o Options }

// NewService returns a Service. Its Run must be running.
func NewService(o Options) *Service { return &Service{o} }

// Registration is a request for a new subscription.
type Registration struct {
	Scope

	URL           string
	EventTypes    []string
	SigningMode   string // empty for the default
	Secret        secret.Value
	RatePerSecond float64
	Description   string
	// GenerateSecret replaces Secret.
	GenerateSecret bool
	// Headers are sent with each delivery; one with an empty value is omitted.
	Headers map[string]string
	// Auth is nil for none.
	Auth *AuthRequest
	// Signatures are the schemes of package signing; empty for the default.
	Signatures []string
	// Filter is empty for none.
	Filter string
}

// Register creates a subscription. It also returns the secret, if one was generated.
func (s *Service) Register(ctx context.Context, r Registration) (Endpoint, secret.Value, error) {
	if r.SigningMode == "" {
		r.SigningMode = signing.OrgTimestamp
	}
	if err := checkRegistration(&r); err != nil {
		return Endpoint{}, secret.Value{}, err
	}
	if err := s.checkFilter(r.Organization, r.Filter); err != nil {
		return Endpoint{}, secret.Value{}, err
	}
	now := s.o.Now().UTC().Truncate(time.Microsecond)
	e := Endpoint{
		ID: delivery.NewID(now), Organization: r.Organization, Owner: r.Owner, EventTypes: r.EventTypes, Active: true,
		SigningMode: r.SigningMode, RatePerSecond: r.RatePerSecond, Description: r.Description, Created: now, Updated: now,
		Signatures: signing.DefaultSchemes(), Filter: r.Filter,
	}
	sealed, generated, err := s.ownSecret(&r, e.ID)
	if err != nil {
		return Endpoint{}, secret.Value{}, err
	}
	e.Secret = sealed
	schemes, err := schemesOf(&r)
	if err != nil {
		return Endpoint{}, secret.Value{}, err
	}
	// The rest is checked as in an update.
	change, err := s.check(ctx, e.Organization, e.ID, Update{URL: &r.URL, Headers: r.Headers, Auth: r.Auth, Signatures: schemes})
	if err != nil {
		return Endpoint{}, secret.Value{}, err
	}
	if e, err = change.Apply(e, now); err != nil {
		return Endpoint{}, secret.Value{}, err
	}
	if err := s.o.Store.Add(ctx, e, s.o.Limit); err != nil {
		return Endpoint{}, secret.Value{}, fmt.Errorf("register endpoint: %w", err)
	}
	s.warn(ctx, &e)
	return e, generated, nil
}

// checkFilter checks an expression, and that the store can hold its text.
func (s *Service) checkFilter(organization, expression string) error {
	if err := delivery.CheckTexts(map[string]string{"filter": expression}); err != nil {
		return err
	}
	return s.o.Filters.Check(organization, expression)
}

func checkRegistration(r *Registration) error {
	texts := map[string]string{"organization_id": r.Organization, "owner_id": r.Owner, "description": r.Description}
	if err := delivery.CheckTexts(texts); err != nil {
		return err
	}
	return checkTypes(r.EventTypes)
}

// Get returns a subscription.
func (s *Service) Get(ctx context.Context, scope Scope, id string) (Endpoint, error) {
	parsed, err := find(scope, id)
	if err != nil {
		return Endpoint{}, err
	}
	e, err := s.o.Store.Get(ctx, scope, parsed)
	if err != nil {
		return Endpoint{}, fmt.Errorf("get endpoint: %w", err)
	}
	s.warn(ctx, &e)
	return e, nil
}

func find(scope Scope, id string) (delivery.ID, error) {
	if err := delivery.CheckTexts(map[string]string{"organization_id": scope.Organization, "owner_id": scope.Owner}); err != nil {
		return delivery.ID{}, err
	}
	parsed, err := delivery.ParseID(id)
	if err != nil {
		return delivery.ID{}, apierr.NotFound("endpoint").Wrap(err)
	}
	return parsed, nil
}

// Filter selects endpoints; an empty field matches all.
type Filter struct {
	Scope

	// Every selects all organizations; then that of the Scope is empty.
	Every  bool
	Active *bool
	// EventType selects endpoints that would receive it.
	EventType string
}

// List returns subscriptions with ids below before (delivery.LastID for the first page), newest first; next is zero
// on the last page.
func (s *Service) List(ctx context.Context, f Filter, before delivery.ID, limit int) (page []Endpoint, next delivery.ID, err error) {
	texts := map[string]string{"organization_id": f.Organization, "owner_id": f.Owner, "event_type": f.EventType}
	if err := delivery.CheckTexts(texts); err != nil {
		return nil, delivery.ID{}, err
	}
	page, err = s.o.Store.List(ctx, f, before, limit+1)
	if err != nil {
		return nil, delivery.ID{}, fmt.Errorf("list endpoints: %w", err)
	}
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID
	}
	for i := range page {
		s.warn(ctx, &page[i])
	}
	return page, next, nil
}

// Update is a requested change; a nil field is unchanged.
type Update struct {
	URL        *string
	EventTypes []string
	Active     *bool
	// Secret is a new secret; Overlap is nil for DefaultOverlap.
	Secret        secret.Value
	Overlap       *time.Duration
	RatePerSecond *float64
	Description   *string
	// Headers replace those of the same name; an empty value removes one.
	Headers map[string]string
	Auth    *AuthRequest
	// Signatures replace all; empty leaves them unchanged.
	Signatures []string
	// Filter is a new filter; an empty one removes it.
	Filter *string
}

// Update changes a subscription. Its queued deliveries follow the change.
func (s *Service) Update(ctx context.Context, scope Scope, id string, u Update) (Endpoint, error) {
	parsed, err := find(scope, id)
	if err != nil {
		return Endpoint{}, err
	}
	change, err := s.check(ctx, scope.Organization, parsed, u)
	if err != nil {
		return Endpoint{}, err
	}
	now := s.o.Now().UTC().Truncate(time.Microsecond)
	e, err := s.o.Store.Update(ctx, scope, parsed, func(e Endpoint) (Endpoint, error) {
		after, err := change.Apply(e, now)
		if err != nil {
			return e, err
		}
		return after, s.checkSuits(&u, &after)
	})
	if err != nil {
		return Endpoint{}, fmt.Errorf("update endpoint: %w", err)
	}
	s.warn(ctx, &e)
	s.o.Waker.Waiting()
	return e, nil
}

// check validates the requested changes and returns them as a Change.
func (s *Service) check(ctx context.Context, organization string, id delivery.ID, u Update) (Change, error) {
	change := Change{
		EventTypes: u.EventTypes, Active: u.Active, Overlap: DefaultOverlap, RatePerSecond: u.RatePerSecond, Description: u.Description,
		Filter: u.Filter,
	}
	if u.Filter != nil {
		if err := s.checkFilter(organization, *u.Filter); err != nil {
			return Change{}, err
		}
	}
	if u.Description != nil {
		if err := delivery.CheckTexts(map[string]string{"description": *u.Description}); err != nil {
			return Change{}, err
		}
	}
	if err := checkTypes(u.EventTypes); err != nil {
		return Change{}, err
	}
	if u.Overlap != nil {
		if u.Secret.IsZero() {
			return Change{}, apierr.Invalid("secret_overlap_seconds", "only together with signing_secret")
		}
		change.Overlap = *u.Overlap
	}
	if !u.Secret.IsZero() {
		var err error
		if change.Secret, err = s.seal("signing_secret", []byte(u.Secret.Reveal()), id.String()); err != nil {
			return Change{}, err
		}
	}
	if u.URL != nil {
		target, err := s.o.Targets.Check(ctx, *u.URL)
		if err != nil {
			return Change{}, err
		}
		change.URL = new(target.String())
	}
	return change, s.checkChange(ctx, id, u, &change)
}

// checkChange completes change with the requested headers, authentication and signatures.
func (s *Service) checkChange(ctx context.Context, id delivery.ID, u Update, change *Change) (err error) {
	if change.Headers, err = s.checkHeaders(u.Headers, id); err != nil {
		return err
	}
	if change.Auth, err = s.checkAuth(ctx, u.Auth, id); err != nil {
		return err
	}
	change.Signatures, err = s.checkSignatures(ctx, u.Signatures)
	return err
}

// Delete ends a subscription and cancels its queued deliveries.
func (s *Service) Delete(ctx context.Context, scope Scope, id string) error {
	parsed, err := find(scope, id)
	if err != nil {
		return err
	}
	if err := s.o.Store.Delete(ctx, scope, parsed); err != nil {
		return fmt.Errorf("delete endpoint: %w", err)
	}
	if err := s.cancel(ctx, cancelPages); err != nil { // The endpoint is deleted; Run continues.
		s.o.Log.WarnContext(ctx, "cancelling the deliveries of a deleted endpoint failed; it is retried", slog.String("error", err.Error()))
	}
	return nil
}

// Run cancels the remaining deliveries of deleted endpoints until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	sweep := func(ctx context.Context) error { return s.cancel(ctx, cancelPages) }
	return lifecycle.Repeat{Every: sweepPause, Do: sweep, Log: s.o.Log, Name: "cancelling for deleted endpoints"}.Run(ctx)
}

func (s *Service) cancel(ctx context.Context, pages int) error {
	for range pages {
		more, err := s.o.Store.CancelDeleted(ctx, cancelPage)
		if err != nil || !more {
			return err
		}
	}
	return nil
}
