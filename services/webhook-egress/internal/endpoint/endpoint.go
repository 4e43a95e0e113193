// Package endpoint owns the registry of subscriptions: which URL receives which event types, how its deliveries are
// signed, and whether it is paused. The API reads and changes it through [Service]; package event uses its patterns
// to match types.
package endpoint

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// The reasons of refusals, in addition to those of package delivery.
const (
	ReasonSecretRequired   apierr.Reason = "signing_secret_required"
	ReasonSecretNotAllowed apierr.Reason = "signing_secret_not_allowed"
)

// All is the pattern that matches every event type.
const All = "*"

// maxEarlier bounds the secrets that sign beside the current one.
const maxEarlier = 3

// DefaultOverlap is how long the previous secret still signs after a rotation that does not set an overlap.
const DefaultOverlap = 24 * time.Hour

// Endpoint is a subscription.
type Endpoint struct {
	ID                  delivery.ID
	Organization, Owner string
	// URL is canonical and is the target of the flow.
	URL         string
	FlowID      int64
	EventTypes  []string
	Active      bool
	SigningMode string
	// Secret is sealed for the id.
	Secret []byte
	// Earlier are the secrets that rotations replaced, the newest first, at most maxEarlier.
	Earlier []delivery.EarlierSecret
	// RatePerSecond is zero for no limit.
	RatePerSecond float64
	Description   string
	// Headers are sent with each delivery, by canonical name; each value is sealed for delivery.HeaderSealedFor.
	Headers map[string][]byte
	// Auth is what reads show of the authentication, SealedAuth all of it; nil for none.
	Auth       *auth.Info
	SealedAuth []byte
	// Signatures are the schemes of package signing, in their order.
	Signatures []string
	// Filter is an expression that events have to match; empty for none.
	Filter string
	// Moves is how often the URL has got another scheme, host or port. Deliveries that were accepted before don't send
	// their credentials to the new one.
	Moves int
	// Warnings say what keeps deliveries from what Signatures say. The Service sets them; they are not stored.
	Warnings []string
	// DisabledReason is why the service paused the endpoint, empty if it did not; FailingSince is the first failure
	// after the last success.
	DisabledReason   string
	DisabledAt       time.Time
	FailingSince     time.Time
	Created, Updated time.Time
}

// Status says whether an endpoint gets its deliveries.
type Status string

// The statuses. With StatusActive and StatusFailing, deliveries are sent; with the latter, the last attempt failed.
// With StatusPaused and StatusDisabled, deliveries wait: the customer paused the endpoint, or the service did.
const (
	StatusActive   Status = "active"
	StatusFailing  Status = "failing"
	StatusPaused   Status = "paused"
	StatusDisabled Status = "disabled"
)

// Status returns the endpoint's status.
func (e *Endpoint) Status() Status {
	switch {
	case !e.Active && e.DisabledReason != "":
		return StatusDisabled
	case !e.Active:
		return StatusPaused
	case !e.FailingSince.IsZero():
		return StatusFailing
	}
	return StatusActive
}

// Scope selects endpoints by organization and owner. An endpoint is found by id only if its owner is the scope's; both
// may be empty. A list without an owner includes every owner's endpoints.
type Scope struct{ Organization, Owner string }

// Change holds the changes of an update; a nil field is unchanged.
type Change struct {
	URL           *string
	EventTypes    []string
	Active        *bool
	Secret        []byte // sealed
	Overlap       time.Duration
	RatePerSecond *float64
	Description   *string
	// Headers replace those of the same name; a nil value removes one.
	Headers map[string][]byte
	Auth    *AuthChange
	// Signatures replace all; empty leaves them unchanged.
	Signatures []string
	Filter     *string // checked
}

// AuthChange replaces an endpoint's authentication; the zero value removes it.
type AuthChange struct {
	Info   *auth.Info
	Sealed []byte
}

// Apply returns the endpoint after the change at time now.
func (c Change) Apply(e Endpoint, now time.Time) (Endpoint, error) {
	before := e
	if c.Secret != nil {
		if e.SigningMode != signing.EndpointBody {
			return e, secretNotAllowed()
		}
		e.Earlier = c.earlier(e, now)
		e.Secret = c.Secret
	}
	if c.URL != nil {
		if e.URL != "" && !netguard.SameOrigin(e.URL, *c.URL) {
			if err := c.checkMove(&e); err != nil {
				return e, err
			}
			e.Moves++
		}
		e.URL = *c.URL
	}
	if len(c.EventTypes) > 0 {
		e.EventTypes = c.EventTypes
	}
	if c.Active != nil {
		e.Active = *c.Active
	}
	if e.Active && (!before.Active || !sameTarget(before.URL, e.URL)) {
		e.DisabledReason, e.DisabledAt, e.FailingSince = "", time.Time{}, time.Time{}
	}
	if c.RatePerSecond != nil {
		e.RatePerSecond = *c.RatePerSecond
	}
	if c.Description != nil {
		e.Description = *c.Description
	}
	if len(c.Signatures) > 0 {
		e.Signatures = c.Signatures
	}
	if c.Filter != nil {
		e.Filter = *c.Filter
	}
	e.Updated = now
	return c.applyAccess(e)
}

// sameTarget reports whether two URLs have the same scheme, host, port and path.
func sameTarget(a, b string) bool {
	from, err := url.Parse(a)
	if err != nil {
		return false
	}
	to, err := url.Parse(b)
	return err == nil && delivery.TargetOf("", from) == delivery.TargetOf("", to)
}

// earlier returns the secrets that sign beside the change's, after it replaced that of e: none without an overlap, which
// is how a secret that is known to others is ended. Of more than maxEarlier, the oldest end.
func (c Change) earlier(e Endpoint, now time.Time) []delivery.EarlierSecret {
	if c.Overlap <= 0 {
		return nil
	}
	kept := []delivery.EarlierSecret{{Sealed: e.Secret, Until: now.Add(c.Overlap)}}
	for _, one := range e.Earlier {
		if len(kept) < maxEarlier && now.Before(one.Until) {
			kept = append(kept, one)
		}
	}
	return kept
}

// Patterns returns the patterns that match an event type: the type itself, each prefix up to a dot followed by `*`,
// and `*`.
func Patterns(eventType string) []string {
	patterns := []string{All, eventType}
	for i := range len(eventType) {
		if eventType[i] == '.' {
			patterns = append(patterns, eventType[:i+1]+All)
		}
	}
	return patterns
}

// checkTypes refuses `*` beside other types, and NUL.
func checkTypes(types []string) error {
	if len(types) > 1 && slices.Contains(types, All) {
		return apierr.Invalid("event_types", "`*` means all types and stands alone")
	}
	if slices.ContainsFunc(types, func(t string) bool { return strings.ContainsRune(t, 0) }) {
		return apierr.Invalid("event_types", "must be text without NUL")
	}
	return nil
}

func secretNotAllowed() error {
	return apierr.New(apierr.KindInvalid, ReasonSecretNotAllowed,
		"signing_secret: only for signing_mode endpoint_body; the organization's secret signs the other")
}
