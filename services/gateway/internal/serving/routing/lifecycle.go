package routing

import (
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// ReasonModelRetired refuses a request for a model that is no longer served.
const ReasonModelRetired apierr.Reason = "model_retired"

// LackRetired excludes a model that is past its cutoff.
const LackRetired Lack = "retired"

// Lifecycle says how long a model is served. It is immutable.
type Lifecycle struct {
	// Deprecated is when callers begin to be warned, Cutoff when the model begins to be refused; zero is never.
	Deprecated, Cutoff time.Time
	// Successor is the model to use instead; empty for none.
	Successor string
	// Warning is one line for callers while the model is deprecated.
	Warning string
}

// IsRetired reports whether the model is past its cutoff.
func (l *Lifecycle) IsRetired(now time.Time) bool { return !l.Cutoff.IsZero() && !now.Before(l.Cutoff) }

// IsDeprecated reports whether callers should move to another model. A retired model is deprecated too.
func (l *Lifecycle) IsDeprecated(now time.Time) bool {
	return !l.Deprecated.IsZero() && !now.Before(l.Deprecated) || l.IsRetired(now)
}

// Lifecycles knows how long models are served.
type Lifecycles interface {
	// Lifecycle returns the lifecycle of a model; nil if no end is known.
	Lifecycle(t provider.Target) *Lifecycle
	// FindRetired returns a retired model that no provider of the policy lists, and its lifecycle; nil if there is
	// none. An empty provider (of) is any.
	FindRetired(of, model string, now time.Time) (provider.Target, *Lifecycle)
}

func (b *planner) lifecycle(t provider.Target) *Lifecycle {
	if b.state.Lifecycles == nil {
		return nil
	}
	return b.state.Lifecycles.Lifecycle(t)
}

func (b *planner) isRetired(t provider.Target) bool {
	l := b.lifecycle(t)
	return l != nil && l.IsRetired(b.state.Now)
}

// served refuses offers that were asked for by name if all of them are retired. No substitute is used, since the caller
// has to move to another model.
func (b *planner) served(offers []*policy.Offer) ([]*policy.Offer, bool, error) {
	if !b.areRetired(offers) {
		return offers, false, nil
	}
	t := offers[0].Target
	return nil, false, errRetired(t, b.lifecycle(t))
}

// areRetired reports whether none of the offers is served any more.
func (b *planner) areRetired(offers []*policy.Offer) bool {
	for _, o := range offers {
		if !b.isRetired(o.Target) {
			return false
		}
	}
	return true
}

// unlisted returns the refusal of a model that no provider has: it may have been retired.
func (b *planner) unlisted() error {
	r := &b.request
	if b.state.Lifecycles != nil {
		if t, l := b.state.Lifecycles.FindRetired(r.Provider, r.Model, b.state.Now); l != nil {
			return errRetired(t, l)
		}
	}
	return apierr.New(apierr.KindNotFound, ReasonModelNotFound, fmt.Sprintf(
		"model: no configured provider has a model %s; the list of models has those there are", screen.Quote(r.Model)))
}

func errRetired(t provider.Target, l *Lifecycle) error {
	text := fmt.Sprintf("model: %s was retired on %s", t, l.Cutoff.Format(time.DateOnly))
	if l.Successor != "" {
		text += "; use " + l.Successor
	}
	return apierr.New(apierr.KindInvalid, ReasonModelRetired, text)
}

// warning returns the warning about the model that the caller asked for, or that was chosen for it; empty for none.
func (b *planner) warning(asked []*policy.Offer, open bool) string {
	if b.state.Lifecycles == nil {
		return ""
	}
	t := asked[0].Target
	if len(b.picked) > 0 && (open || !b.picked[0].substitute) {
		t = b.picked[0].Target
	}
	if l := b.lifecycle(t); l != nil && l.IsDeprecated(b.state.Now) {
		return l.Warning
	}
	return ""
}
