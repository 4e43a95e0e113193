// Package run is the authority of a run: what its calls may spend, on which
// models, until when, and how that ends. It is pure; package admission enforces
// it, internal/postgres keeps it, package api serves it.
package run

import (
	"slices"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Reasons of calls and operations that a run's state refuses.
const (
	ReasonRevoked   apierr.Reason = "run_revoked"
	ReasonExpired   apierr.Reason = "run_expired"
	ReasonExhausted apierr.Reason = "run_exhausted"
	ReasonAborted   apierr.Reason = "run_aborted"
)

// The refusals of calls; they end calls in flight, too.
var (
	ErrRevoked   = denied(ReasonRevoked, "the run was revoked")
	ErrExpired   = denied(ReasonExpired, "the run has expired")
	ErrExhausted = denied(ReasonExhausted, "the run has used up a limit")
	ErrAborted   = denied(ReasonAborted, "the session was asked to stop")
	// Of a run that is not at its end: a smaller call, or one a little later, may pass.
	ErrCostLeft = denied(ReasonExhausted,
		"max_cost_cents: what is left of it, beside the run's calls in flight, does not cover the worst case of this call; lower max_tokens")
	ErrCallsLeft = denied(ReasonExhausted, "max_calls: the run's calls in flight are the last ones")
)

// Status of a run's authority.
type Status string

// The statuses. Unminted is a session of calls without an authority.
const (
	Unminted  Status = ""
	Minted    Status = "minted"
	Active    Status = "active"
	Revoked   Status = "revoked"
	Expired   Status = "expired"
	Exhausted Status = "exhausted"
)

// Event is what happens to an authority.
type Event int

// The events.
const (
	Mint Event = iota
	Call
	Revoke
	Expire
	Exhaust
)

// transitions are all that there are. What has ended stays as it is.
var transitions = map[Status]map[Event]Status{
	Unminted: {Mint: Minted},
	Minted:   {Call: Active, Revoke: Revoked, Expire: Expired, Exhaust: Exhausted},
	Active:   {Call: Active, Revoke: Revoked, Expire: Expired, Exhaust: Exhausted},
}

// Next is the status after an event; false where the event can't happen.
func (s Status) Next(e Event) (Status, bool) {
	next, ok := transitions[s][e]
	return next, ok
}

// Ended tells that no event can happen any more.
func (s Status) Ended() bool { return s == Revoked || s == Expired || s == Exhausted }

// Limits of an authority. The zero value of each is none.
type Limits struct {
	MaxCostCents float64
	MaxCalls     int
	// Models by name, provider and name, or the vendor's own name.
	Models    []string
	ExpiresAt time.Time
}

// Allows reports whether a model may be used, given all its names.
func (l Limits) Allows(names ...string) bool {
	return len(l.Models) == 0 || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(l.Models, n) })
}

// Abort is an operator's request that a session stop; zero: there is none.
type Abort struct {
	RequestedAt time.Time
	By, Reason  string
}

// Requested reports whether there is one.
func (a Abort) Requested() bool { return !a.RequestedAt.IsZero() }

// Run is an authority, or with the status Unminted a session whose abort was
// asked for.
type Run struct {
	Organization, ID string
	Status           Status
	Limits           Limits
	InitiatedBy      string
	ApprovalRef      string
	Metadata         map[string]string
	// Zero times are those that have not come.
	CreatedAt, ActivatedAt, EndedAt time.Time
	RevokedBy, RevokeReason         string
	Abort                           Abort
}

// Usage is what a session has used.
type Usage struct {
	SpentCents, ReservedCents float64
	// Calls that were billed, and InFlight those under way; Elsewhere is what other
	// replicas said of that, a second ago at the most.
	Calls, InFlight, Elsewhere int64
	// FirstCallAt and LastCallAt are zero before the first.
	FirstCallAt, LastCallAt time.Time
}

// spent reports whether a limit is used up.
func (l Limits) spent(u Usage) bool {
	return l.MaxCalls > 0 && u.Calls >= int64(l.MaxCalls) || l.MaxCostCents > 0 && u.SpentCents >= l.MaxCostCents
}

// At is the run at a moment, given what it has used: an end that has come but was
// not written down yet is in it.
func (r Run) At(now time.Time, u Usage) Run {
	if r.Status == Minted && !u.FirstCallAt.IsZero() {
		r.Status, r.ActivatedAt = Active, u.FirstCallAt
	}
	if r.Status == Unminted || r.Status.Ended() {
		return r
	}
	switch {
	case !now.Before(r.Limits.ExpiresAt):
		r.Status, _ = r.Status.Next(Expire)
		r.EndedAt = r.Limits.ExpiresAt
	case r.Limits.spent(u):
		r.Status, _ = r.Status.Next(Exhaust)
		r.EndedAt = u.LastCallAt
	}
	return r
}

// Refusal is why no call of the run may begin or go on at a moment; nil when
// one may, by what is known without its usage.
func (r *Run) Refusal(now time.Time) *apierr.Error {
	switch {
	case r.Status == Revoked:
		return ErrRevoked
	case r.Abort.Requested():
		return ErrAborted
	case r.Status == Expired, r.Status != Unminted && !now.Before(r.Limits.ExpiresAt):
		return ErrExpired
	case r.Status == Exhausted:
		return ErrExhausted
	}
	return nil
}

// Session statuses beyond those of an authority that has ended.
const (
	SessionActive   = "active"
	SessionIdle     = "idle"
	SessionAborting = "aborting"
	SessionAborted  = "aborted"
)

// ActiveFor is how long after its last call a session counts as active.
const ActiveFor = time.Minute

// SessionStatus says what a session is doing: the end of its authority, its
// abort, or whether it was called of late.
func (r Run) SessionStatus(now time.Time, u Usage) string {
	switch at := r.At(now, u); {
	case at.Status.Ended():
		return string(at.Status)
	case r.Abort.Requested() && u.InFlight > 0:
		return SessionAborting
	case r.Abort.Requested():
		return SessionAborted
	case u.InFlight > 0, now.Sub(u.LastCallAt) < ActiveFor:
		return SessionActive
	}
	return SessionIdle
}

// ErrMinted refuses to mint a run twice, ErrMintAborted one that was asked to stop.
var (
	ErrMinted      = apierr.New(apierr.KindConflict, apierr.ReasonConflict, "run_id: this run has been minted already")
	ErrMintAborted = apierr.New(apierr.KindConflict, ReasonAborted, "run_id: the session was asked to stop")
	// ErrNotFound is the error for a run that was never minted.
	ErrNotFound = apierr.NotFound("run_id: run")
	// ErrAmbiguous is of an id that several organizations have a run of.
	ErrAmbiguous = apierr.New(apierr.KindConflict, apierr.ReasonConflict,
		"organization_id: is required, since several organizations have a run of this id")
)

// Revoked gives the run revoked; false means that it is already. A run that
// ended otherwise is a conflict.
func (r Run) Revoked(now time.Time, u Usage, by, reason string) (Run, bool, error) {
	at := r.At(now, u)
	if at.Status == Unminted {
		return r, false, ErrNotFound
	}
	if at.Status == Revoked {
		return at, false, nil
	}
	next, ok := at.Status.Next(Revoke)
	if !ok {
		return at, false, apierr.New(apierr.KindConflict, apierr.ReasonConflict, "run_id: the run has ended: "+string(at.Status))
	}
	at.Status, at.EndedAt, at.RevokedBy, at.RevokeReason = next, now, by, reason
	return at, true, nil
}

// denied is a refusal by what was set, which no repetition changes.
func denied(reason apierr.Reason, text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: reason, Class: apierr.ClassPolicy, Text: text}
}
