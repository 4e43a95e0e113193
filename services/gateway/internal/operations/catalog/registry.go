package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Status of a model.
type Status string

// The statuses. A deprecated model is served with a warning, a retired one is refused.
const (
	Active     Status = "active"
	Deprecated Status = "deprecated"
	Retired    Status = "retired"
)

// NoticeTime is how long before its cutoff a model appears in Notices.
const NoticeTime = 90 * 24 * time.Hour

// Deprecation is what an operator set for a model; it has precedence over the catalog file.
type Deprecation struct {
	provider.Target
	Successor, Reason string
	// Cutoff is zero if the catalog file's applies.
	Cutoff    time.Time
	At        time.Time
	By        string
	UpdatedAt time.Time
}

// Row is the lifecycle of one model.
type Row struct {
	provider.Target
	Owner             string
	Successor, Reason string
	// Cutoff is the first day on which the model is not served, DeprecatedAt when callers begin to be warned; zero is
	// not known.
	Cutoff, DeprecatedAt time.Time
	// By is the operator who deprecated it; empty if none did.
	By string
	// UpdatedAt is zero for models that only the policy lists.
	UpdatedAt time.Time
}

// Status returns the status of the model at a moment.
func (r *Row) Status(now time.Time) Status {
	life := r.lifecycle()
	switch {
	case life.IsRetired(now):
		return Retired
	case life.IsDeprecated(now):
		return Deprecated
	}
	return Active
}

func (r *Row) lifecycle() *routing.Lifecycle {
	text := "model " + r.String() + " is deprecated"
	if !r.Cutoff.IsZero() {
		text += ", and not served from " + r.Cutoff.Format(time.DateOnly) + " on"
	}
	if r.Successor != "" {
		text += "; use " + r.Successor
	}
	return &routing.Lifecycle{Deprecated: r.DeprecatedAt, Cutoff: r.Cutoff, Successor: r.Successor, Warning: headerText(text)}
}

// headerText replaces the characters of a text that a header may not hold.
func headerText(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, text)
}

// Registry is a catalog with the operators' deprecations. It is immutable.
type Registry struct {
	*Catalog

	rows       []Row // by provider and model
	lifecycles map[provider.Target]*routing.Lifecycle
}

// NewRegistry returns a catalog with deprecations applied to it.
func NewRegistry(c *Catalog, set []Deprecation) *Registry {
	r := &Registry{Catalog: c, lifecycles: make(map[provider.Target]*routing.Lifecycle)}
	rows := make(map[provider.Target]Row)
	for _, t := range c.targets() {
		rows[t] = Row{Target: t}
	}
	for t, e := range c.file.entries {
		_, listed := rows[t]
		if _, configured := c.policy.Canonical(t.Provider); configured && (listed || !e.copied) {
			rows[t] = Row{Target: t, Owner: e.Owner, Successor: e.Successor, Reason: e.Reason, Cutoff: e.Cutoff, DeprecatedAt: e.Deprecated, UpdatedAt: e.Reviewed}
		}
	}
	for _, d := range set {
		row, known := rows[d.Target]
		if !known {
			continue // Its provider is no longer configured.
		}
		row.Successor, row.Reason, row.By, row.UpdatedAt = d.Successor, d.Reason, d.By, d.UpdatedAt
		row.DeprecatedAt = d.At
		if !d.Cutoff.IsZero() {
			row.Cutoff = d.Cutoff
		}
		rows[d.Target] = row
	}
	for t, row := range rows {
		r.rows = append(r.rows, row)
		if life := row.lifecycle(); !life.Deprecated.IsZero() || !life.Cutoff.IsZero() {
			r.lifecycles[t] = life
		}
	}
	slices.SortFunc(r.rows, func(a, b Row) int { return compare(a.Target, b.Target) })
	return r
}

// Lifecycle implements routing.Lifecycles.
func (r *Registry) Lifecycle(t provider.Target) *routing.Lifecycle { return r.lifecycles[t] }

// FindRetired implements routing.Lifecycles.
func (r *Registry) FindRetired(of, model string, now time.Time) (provider.Target, *routing.Lifecycle) {
	if prefix, rest, found := strings.Cut(model, "/"); found && (of == "" || of == prefix) {
		if t := (provider.Target{Provider: prefix, Model: rest}); r.lifecycles[t] != nil && r.lifecycles[t].IsRetired(now) {
			return t, r.lifecycles[t]
		}
	}
	for i := range r.rows {
		t := r.rows[i].Target
		if life := r.lifecycles[t]; t.Model == model && (of == "" || of == t.Provider) && life != nil && life.IsRetired(now) {
			return t, life
		}
	}
	return provider.Target{}, nil
}

// Rows returns all known models, by provider and model.
func (r *Registry) Rows() []Row { return r.rows }

func (r *Registry) find(t provider.Target) (Row, bool) {
	i, found := slices.BinarySearchFunc(r.rows, t, func(row Row, t provider.Target) int { return compare(row.Target, t) })
	if !found {
		return Row{}, false
	}
	return r.rows[i], true
}

// Cards returns the cards of the models that can be called, by provider and model.
func (r *Registry) Cards(now time.Time) []Card {
	targets := r.targets()
	cards := make([]Card, len(targets))
	for i, t := range targets {
		cards[i] = r.card(t, now)
		cards[i].Lifecycle, _ = r.find(t)
	}
	return cards
}

// Notice is a model to move away from.
type Notice struct {
	Row
	// Expiring reports whether its cutoff is near and it has not been deprecated.
	Expiring bool
}

// Notices returns the deprecated models and those whose cutoff is within NoticeTime, soonest cutoff first, those
// without one last.
func (r *Registry) Notices(now time.Time) []Notice {
	var all []Notice
	for _, row := range r.rows {
		near := !row.Cutoff.IsZero() && !row.Cutoff.After(now.Add(NoticeTime))
		deprecated := row.Status(now) != Active
		if near || deprecated {
			all = append(all, Notice{Row: row, Expiring: !deprecated})
		}
	}
	slices.SortFunc(all, func(a, b Notice) int {
		return cmp.Or(strings.Compare(a.Order(), b.Order()), compare(a.Target, b.Target))
	})
	return all
}

// Order returns the sort key of notices: the cutoff; models without one are last.
func (r *Row) Order() string {
	if r.Cutoff.IsZero() {
		return "9999"
	}
	return r.Cutoff.Format(time.DateOnly)
}

// DeprecationRequest is a deprecation that an operator asks for.
type DeprecationRequest struct {
	// Provider, by its name or an alias, may be empty if only one provider has the model.
	Provider, Model   string
	Successor, Reason string
	// Cutoff is zero to leave the cutoff unchanged.
	Cutoff time.Time
	By     string
	At     time.Time
}

// Deprecate checks a request and returns the deprecation to store. The error is an *apierr.Error that names the field.
func (r *Registry) Deprecate(w DeprecationRequest) (Deprecation, error) {
	row, err := r.only(w.Provider, w.Model)
	if err != nil {
		return Deprecation{}, err
	}
	successor, err := r.successor(row.Target, w.Successor, w.At)
	if err != nil {
		return Deprecation{}, err
	}
	name := successor.Model
	if successor.Provider != row.Provider {
		name = successor.String()
	}
	return Deprecation{
		Target: row.Target, Successor: name, Reason: w.Reason, Cutoff: w.Cutoff, At: w.At, By: w.By, UpdatedAt: w.At,
	}, nil
}

// only returns the one model of a name.
func (r *Registry) only(provider, model string) (Row, error) {
	if provider != "" {
		canonical, ok := r.policy.Canonical(provider)
		if !ok {
			return Row{}, apierr.New(apierr.KindInvalid, routing.ReasonProviderUnknown, fmt.Sprintf("provider: no provider %s is configured", screen.Quote(provider)))
		}
		provider = canonical
	}
	var found []Row
	for _, row := range r.rows {
		if (row.Model == model || row.String() == model) && (provider == "" || provider == row.Provider) {
			found = append(found, row)
		}
	}
	switch len(found) {
	case 0:
		return Row{}, apierr.New(apierr.KindNotFound, routing.ReasonModelNotFound, fmt.Sprintf(
			"model_id: there is no model %s; the known ones are in GET /v1/models/registry", screen.Quote(model)))
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].Provider
	}
	return Row{}, apierr.Invalid("provider", "is required, since several have this model: "+strings.Join(names, ", "))
}

// successor returns the model that is to succeed another: one of the same provider, one named in full, or one that only
// one provider has.
func (r *Registry) successor(of provider.Target, name string, now time.Time) (provider.Target, error) {
	row, ok := r.find(provider.Target{Provider: of.Provider, Model: name})
	if !ok {
		var err error
		if row, err = r.only("", name); err != nil {
			if apierr.From(err).Kind == apierr.KindNotFound {
				return provider.Target{}, apierr.Invalid("successor", fmt.Sprintf("there is no model %s; the known ones are in GET /v1/models/registry", screen.Quote(name)))
			}
			return provider.Target{}, apierr.Invalid("successor", "several providers have this model; write provider/model")
		}
	}
	switch {
	case row.Target == of:
		return row.Target, apierr.Invalid("successor", "is the model itself")
	case row.Status(now) == Retired:
		return row.Target, apierr.Invalid("successor", row.String()+" is retired itself")
	case r.leadsTo(row, of):
		return row.Target, apierr.Invalid("successor", row.String()+" has the model as its own successor")
	}
	return row.Target, nil
}

// leadsTo reports whether the chain of successors from a row reaches the model of.
func (r *Registry) leadsTo(row Row, of provider.Target) bool {
	for range len(r.rows) {
		next, ok := r.find(provider.Target{Provider: row.Provider, Model: row.Successor})
		if !ok {
			if prefix, model, found := strings.Cut(row.Successor, "/"); found {
				next, ok = r.find(provider.Target{Provider: prefix, Model: model})
			}
		}
		if !ok || next.Target == of {
			return ok
		}
		row = next
	}
	return false
}
