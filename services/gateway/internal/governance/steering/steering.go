// Package steering holds what operators set over the policy: a pin that sends every request to one provider, and a
// canary that sends it a share of the requests. Its decisions do no I/O; Overrides keeps a replica up to date with the
// store and counts the canary's outcomes. Package routing applies the settings to plans, package api sets them,
// internal/postgres stores them.
package steering

import (
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// ReasonVersionConflict is the reason of a refusal because the caller saw another revision.
const ReasonVersionConflict apierr.Reason = "version_conflict"

// Stickiness is what the canary's share consists of: organizations or runs, which always get the same choice.
type Stickiness string

// The kinds of stickiness.
const (
	ByOrganization Stickiness = "organization"
	ByRun          Stickiness = "run"
)

// Setting is a pin or a canary. If none is set, Target is zero.
type Setting struct {
	// Target is the destination; an empty model stands for the model that each request asks for.
	provider.Target
	// Percentage and Sticky are set for a canary only.
	Percentage float64
	Sticky     Stickiness

	// Since, By and Reason describe the change that set it; zero if none is set.
	Since  time.Time
	By     string
	Reason string
	// Revision grows by one with each change.
	Revision int
}

// IsSet reports whether a pin or canary is set.
func (s Setting) IsSet() bool { return s.Provider != "" }

// Change is a requested change of a pin or canary. A Setting without a provider clears it.
type Change struct {
	To Setting
	// Expected is the revision that the caller saw; nil is any.
	Expected *int
}

// Apply returns the setting after a change. changed is false if the setting stays the same. The error is an
// *apierr.Error.
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

// State is the pin and the canary.
type State struct{ Pin, Canary Setting }

// Override returns the settings in the form that planning uses.
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
	// Pin sends every request to one provider, or one of its models, without failover. An empty model stands for the
	// model that each request asks for.
	Pin *provider.Target
	// Canary sends a share of the requests to one provider or model.
	Canary *Canary
}

// Canary is a provider or model that receives a share of the requests.
type Canary struct {
	// Target is the destination; an empty model stands for the model that each request asks for.
	provider.Target
	// Percentage is the share of the organizations, or of the runs, from 0 to 100.
	Percentage float64
	// ByRun chooses by run; a request without a run is chosen by its organization.
	ByRun bool
	// Revision identifies this canary among all canaries over time.
	Revision int
}
