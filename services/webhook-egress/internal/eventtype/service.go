package eventtype

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/schema"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts on a payload whose type has a schema.
const (
	Valid    Verdict = "valid"
	Rejected Verdict = "rejected"
	Warned   Verdict = "warned"
	// Failed is a stored schema that this release can't read. The event is taken.
	Failed Verdict = "failed"
)

// Options configures a Service.
type Options struct {
	Store Store
	// Limit is how many types an organization may have.
	Limit int
	// Observe is called with each verdict.
	Observe func(Verdict)
	Log     *slog.Logger
	Now     func() time.Time
}

// Service is the registry.
type Service struct {
	o     Options
	cache *schema.Cache
	// turns divides the processors between organizations for checks and for compiling schemas.
	turns *fairshare.Processors
	house []Type // in the order of their names
}

// NewService returns a Service.
func NewService(o Options) *Service {
	s := &Service{o: o, cache: schema.NewCache(), turns: fairshare.NewProcessors()}
	for _, t := range houseevent.Types() {
		s.house = append(s.house, Type{
			Name: t.Name, Description: t.Description, Schema: t.Schema, Validation: Off, Examples: [][]byte{t.Example}, House: true,
		})
	}
	slices.SortFunc(s.house, func(a, b Type) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// Put registers a type, or replaces what is registered of it; added reports which. An empty Validation is Reject.
func (s *Service) Put(ctx context.Context, organization string, t Type) (put Type, added bool, err error) {
	t.Validation = cmp.Or(t.Validation, Reject)
	var compiled *schema.Schema
	busy := s.turns.Do(ctx, organization, func() { compiled, err = check(organization, t) })
	if err = cmp.Or(busy, err); err != nil {
		return Type{}, false, err
	}
	t.Updated = s.o.Now().UTC().Truncate(time.Microsecond)
	if t.Created, added, err = s.o.Store.Put(ctx, organization, t, s.o.Limit); err != nil {
		return Type{}, false, fmt.Errorf("put event type: %w", err)
	}
	if compiled != nil {
		s.cache.Add(t.Hash(), compiled)
	}
	return t, added, nil
}

// Get returns a type of an organization or of Switchyard.
func (s *Service) Get(ctx context.Context, organization, name string) (Type, error) {
	if err := checkTexts(organization, name); err != nil {
		return Type{}, err
	}
	if strings.HasPrefix(name, delivery.OwnEvents) {
		i := slices.IndexFunc(s.house, func(t Type) bool { return t.Name == name })
		if i < 0 {
			return Type{}, apierr.NotFound("event type")
		}
		return s.house[i], nil
	}
	t, err := s.o.Store.Get(ctx, organization, name)
	if err != nil {
		return Type{}, fmt.Errorf("get event type: %w", err)
	}
	return t, nil
}

func checkTexts(organization, name string) error {
	return delivery.CheckTexts(map[string]string{"organization_id": organization, "type": name})
}

// Origin selects types in a list.
type Origin string

// The origins. An empty Origin selects all types.
const (
	OfOrganization Origin = "organization"
	OfHouse        Origin = "switchyard"
)

// List returns at most limit types after a name, in the order of their names; next is empty on the last page.
func (s *Service) List(ctx context.Context, organization string, origin Origin, after string, limit int) (page []Summary, next string, err error) {
	if err := checkTexts(organization, after); err != nil {
		return nil, "", err
	}
	if origin != OfHouse {
		if page, err = s.o.Store.List(ctx, organization, after, limit+1); err != nil {
			return nil, "", fmt.Errorf("list event types: %w", err)
		}
	}
	if origin != OfOrganization {
		for _, t := range s.house {
			if t.Name > after {
				page = append(page, Summary{
					Name: t.Name, Description: t.Description, HasSchema: true, Validation: t.Validation, House: true,
				})
			}
		}
		slices.SortFunc(page, func(a, b Summary) int { return cmp.Compare(a.Name, b.Name) })
	}
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].Name
	}
	return page, next, nil
}

// Delete removes a type of an organization.
func (s *Service) Delete(ctx context.Context, organization, name string) error {
	if err := checkTexts(organization, name); err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return err
	}
	if err := s.o.Store.Delete(ctx, organization, name); err != nil {
		return fmt.Errorf("delete event type: %w", err)
	}
	return nil
}

// Checked is what the check of a payload has found. It is zero for one that follows the schema, and for one whose type
// has none.
type Checked struct {
	// Rejected refuses the event; nil for one that is taken.
	Rejected error
	// Warnings are the violations of an event that is taken all the same.
	Warnings []schema.Violation
}

// Check checks the payload of an event against the schema of its type.
func (s *Service) Check(ctx context.Context, organization, name string, payload []byte) (Checked, error) {
	rule, found, err := s.o.Store.Rule(ctx, organization, name)
	if err != nil || !found {
		return Checked{}, err
	}
	compiled, usable, err := s.compiled(ctx, organization, name, rule.Hash)
	if err != nil || !usable {
		return Checked{}, err
	}
	var violations []schema.Violation
	if err := s.turns.Do(ctx, organization, func() { violations = compiled.Check(payload) }); err != nil {
		return Checked{}, err
	}
	switch {
	case len(violations) == 0:
		s.o.Observe(Valid)
		return Checked{}, nil
	case rule.Validation == Warn:
		s.o.Observe(Warned)
		return Checked{Warnings: violations}, nil
	}
	s.o.Observe(Rejected)
	return Checked{Rejected: broken("payload", "breaks the schema of the event type: ", violations)}, nil
}

// compiled returns the schema of a type, kept or compiled. It is not usable if it was removed just now, or if this release
// can't read it: a schema of another release must not stop events.
func (s *Service) compiled(ctx context.Context, organization, name string, hash [32]byte) (compiled *schema.Schema, usable bool, err error) {
	if kept := s.cache.Get(hash); kept != nil {
		return kept, true, nil
	}
	t, err := s.o.Store.Get(ctx, organization, name)
	missing := err != nil && apierr.From(err).Kind == apierr.KindNotFound
	switch {
	case missing || err == nil && len(t.Schema) == 0:
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("get schema: %w", err)
	}
	if busy := s.turns.Do(ctx, organization, func() { compiled, err = schema.Compile(t.Schema) }); busy != nil {
		return nil, false, busy
	}
	if err != nil {
		s.o.Observe(Failed)
		s.o.Log.ErrorContext(ctx, "the schema of an event type can't be read; its events are not checked",
			slog.String("organization", organization), slog.String("event_type", name), slog.String("error", err.Error()))
		return nil, false, nil
	}
	s.cache.Add(t.Hash(), compiled)
	return compiled, true, nil
}
