package plan

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"switchyard.dev/services/platform/apierr"
)

// Users is how many keys that are not revoked, and how many organizations, are on a plan.
type Users struct{ Keys, Organizations int64 }

// Store persists plans. Each write takes the next number of the plans' feed in its own transaction, and adds the audit
// entry in it.
type Store interface {
	Feed
	// SetPlan creates or replaces a plan, and returns it with the time of its creation. It changes nothing and reports
	// false if there are most other plans already.
	SetPlan(ctx context.Context, p Plan, most int, by Author) (set Plan, ok bool, err error)
	// DeletePlan deletes a plan without users. It reports whether there is such a plan; with users it changes nothing.
	DeletePlan(ctx context.Context, name string, by Author) (users Users, found bool, err error)
}

// Author is the author of a change, for the audit: the name of a service token, the request, and the time.
type Author struct {
	Name, Request string
	At            time.Time
}

// Manager serves operators.
type Manager struct {
	store Store
	// standard is the plan of organizations without one, empty for none.
	standard string
	log      *slog.Logger
}

// NewManager returns a Manager. standard is the name of the default plan, which can't be deleted.
func NewManager(store Store, standard string, log *slog.Logger) *Manager {
	return &Manager{store: store, standard: standard, log: log}
}

// Set creates or replaces a plan.
func (m *Manager) Set(ctx context.Context, by Author, p Plan) (Plan, error) {
	if err := p.check(); err != nil {
		return Plan{}, err
	}
	p.UpdatedAt = by.At
	set, ok, err := m.store.SetPlan(ctx, p, mostPlans, by)
	switch {
	case err != nil:
		return Plan{}, fmt.Errorf("set plan: %w", err)
	case !ok:
		return Plan{}, apierr.New(apierr.KindConflict, apierr.ReasonConflict, fmt.Sprintf("there are %d plans: delete one first", mostPlans))
	}
	m.log.InfoContext(ctx, "plan changed", "plan", p.Name)
	return set, nil
}

// Get returns a plan.
func (m *Manager) Get(ctx context.Context, name string) (Plan, error) {
	all, err := m.List(ctx)
	if err != nil {
		return Plan{}, err
	}
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
	}
	return Plan{}, apierr.NotFound("plan")
}

// Of returns the plan of an organization, by the name of its own one, which may be empty. It reports false if there is none.
func (m *Manager) Of(ctx context.Context, own string) (p Plan, found bool, err error) {
	name := cmp.Or(own, m.standard)
	if name == "" {
		return Plan{}, false, nil
	}
	plans, err := m.List(ctx)
	if err != nil {
		return Plan{}, false, err
	}
	if i := slices.IndexFunc(plans, func(p Plan) bool { return p.Name == name }); i >= 0 {
		return plans[i], true, nil
	}
	return Plan{}, false, nil
}

// List returns all plans in the order of their names.
func (m *Manager) List(ctx context.Context) ([]Plan, error) {
	plans, err := m.store.Plans(ctx)
	if err != nil {
		return nil, fmt.Errorf("list plans: %w", err)
	}
	return plans, nil
}

// Delete deletes a plan that no key and no organization is on. Revoked keys leave it.
func (m *Manager) Delete(ctx context.Context, by Author, name string) error {
	if CheckName("plan", name) != nil {
		return apierr.NotFound("plan")
	}
	if name == m.standard {
		return apierr.New(apierr.KindConflict, apierr.ReasonConflict, "the plan is the default plan of EDGE_DEFAULT_PLAN")
	}
	users, found, err := m.store.DeletePlan(ctx, name, by)
	switch {
	case err != nil:
		return fmt.Errorf("delete plan: %w", err)
	case !found:
		return apierr.NotFound("plan")
	case users != Users{}:
		return apierr.New(apierr.KindConflict, apierr.ReasonConflict,
			fmt.Sprintf("%d keys and %d organizations are on the plan: move them first", users.Keys, users.Organizations))
	}
	m.log.InfoContext(ctx, "plan deleted", "plan", name)
	return nil
}

// printable reports whether a text for people is UTF-8 without control characters.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
