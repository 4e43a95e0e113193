// Package steering is what operators set over the policy: a pin that sends every
// request to one provider, and a canary that sends a share of them. Its decisions
// are pure; Overrides keep a replica level with the store and counts what comes of
// a canary. Package routing plans by it, package api sets it, internal/postgres
// keeps it.
package steering

import (
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// ReasonVersionConflict refuses a change by a caller that saw another revision.
const ReasonVersionConflict apierr.Reason = "version_conflict"

// Stickiness is what stays with a canary once chosen.
type Stickiness string

// The kinds of stickiness.
const (
	ByOrganization Stickiness = "organization"
	ByRun          Stickiness = "run"
)

// Setting is a pin or a canary, or that there is none: then Target is zero.
type Setting struct {
	// Target; an empty model is the one that each request asks for.
	provider.Target
	// Percentage and Sticky are a canary's.
	Percentage float64
	Sticky     Stickiness

	// Since, By and Reason are of the change that set it; zero where there is none.
	Since  time.Time
	By     string
	Reason string
	// Revision grows by one with each change.
	Revision int
}

// IsSet reports whether there is one.
func (s Setting) IsSet() bool { return s.Provider != "" }

// Change is a requested change of a pin or canary. A Setting without a provider clears it.
type Change struct {
	To Setting
	// Expected is the revision that the caller saw; nil is any.
	Expected *int
}

// Apply gives the setting after a change; changed is false where it is so
// already. The error is an *apierr.Error.
func (s Setting) Apply(c Change) (after Setting, changed bool, err error) {
	if c.Expected != nil && *c.Expected != s.Revision {
		return s, false, apierr.New(apierr.KindConflict, ReasonVersionConflict, fmt.Sprintf(
			"expected_version: is %d, the present version is %d; read it again", *c.Expected, s.Revision))
	}
	same := s.Target == c.To.Target && s.Percentage == c.To.Percentage && s.Sticky == c.To.Sticky
	if same && (!s.IsSet() || s.Reason == c.To.Reason) {
		return s, false, nil
	}
	after = c.To
	if !after.IsSet() {
		after = Setting{}
	}
	after.Revision = s.Revision + 1
	return after, true, nil
}

// State is both settings.
type State struct{ Pin, Canary Setting }

// Override returns the settings as plans go by them.
func (s State) Override() Override {
	var o Override
	if s.Pin.IsSet() {
		o.Pin = &s.Pin.Target
	}
	if c := s.Canary; c.IsSet() {
		o.Canary = &Canary{Target: c.Target, Percentage: c.Percentage, ByRun: c.Sticky == ByRun, Revision: c.Revision}
	}
	return o
}

// Override is what operators set over the policy, for every request. The zero value changes nothing.
type Override struct {
	// Pin sends every request to one provider, or one model of it, without
	// failover. An empty model is the one that each request asks for.
	Pin *provider.Target
	// Canary sends a share of the requests to one provider or model.
	Canary *Canary
}

// Canary is a provider or model that a share of the requests goes to.
type Canary struct {
	// Target; an empty model is the one that each request asks for.
	provider.Target
	// Percentage of the organizations, or of the runs, 0 to 100.
	Percentage float64
	// ByRun chooses run by run; a request without one goes by its organization.
	ByRun bool
	// Revision names this canary among those that there have been.
	Revision int
}
