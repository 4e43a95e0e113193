// Package run holds the authority of a run: what its calls may spend, on which models and tools, until when, and how it
// ends. It does no I/O; package admission enforces authorities, internal/postgres stores them, package api serves them.
package run

import (
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/governance/pattern"
	"switchyard.dev/services/platform/apierr"
)

// Reasons of refusals that are due to a run's state.
const (
	ReasonRevoked   apierr.Reason = "run_revoked"
	ReasonExpired   apierr.Reason = "run_expired"
	ReasonExhausted apierr.Reason = "run_exhausted"
	ReasonAborted   apierr.Reason = "run_aborted"
	// ReasonToolNotAllowed refuses a tool that the run may not call, ReasonToolLoop the same call once more.
	ReasonToolNotAllowed apierr.Reason = "tool_not_allowed"
	ReasonToolLoop       apierr.Reason = "tool_loop"
)

// Refusals of calls; they also end calls in flight.
var (
	ErrRevoked   = denied(ReasonRevoked, "the run was revoked")
	ErrExpired   = denied(ReasonExpired, "the run has expired")
	ErrExhausted = denied(ReasonExhausted, "the run has used up a limit")
	ErrAborted   = denied(ReasonAborted, "the session was asked to stop")
	// Refusals of a run that has not ended: a smaller call, or a later one, may succeed.
	ErrCostLeft = denied(ReasonExhausted,
		"max_cost_cents: the remaining amount, less the run's calls in flight, does not cover the worst case")
	ErrCallsLeft      = denied(ReasonExhausted, "max_calls: the run's calls in flight are the last ones")
	ErrToolCallsLeft  = denied(ReasonExhausted, "max_tool_calls: the run's calls of tools in flight are the last ones")
	ErrToolRepeatLeft = denied(ReasonToolLoop, "the same call is in flight as often as the run may still make it")
	// ErrToolNotAllowed refuses a call of a tool that is none of the run's.
	ErrToolNotAllowed = denied(ReasonToolNotAllowed, "allowed_tools: the run may not call this tool")
	// ErrToolsExhausted and ErrToolLoop end the authority of a run. One without an authority goes on; of its calls of tools,
	// the first refuses all, the second those that are the same.
	ErrToolsExhausted = denied(ReasonExhausted, "max_tool_calls: the run has made as many calls of tools as it may")
	ErrToolLoop       = denied(ReasonToolLoop, "the run has made the same call of a tool as often as it may")
)

// Status is the status of a run's authority.
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

// Event is an event in the life of an authority.
type Event int

// The events.
const (
	Mint Event = iota
	Call
	Revoke
	Expire
	Exhaust
)

// transitions holds all valid transitions. A status that has ended never changes.
var transitions = map[Status]map[Event]Status{
	Unminted: {Mint: Minted},
	Minted:   {Call: Active, Revoke: Revoked, Expire: Expired, Exhaust: Exhausted},
	Active:   {Call: Active, Revoke: Revoked, Expire: Expired, Exhaust: Exhausted},
}

// Next returns the status after an event, or false if the event is not valid in this status.
func (s Status) Next(e Event) (Status, bool) {
	next, ok := transitions[s][e]
	return next, ok
}

// Ended reports whether the status is final.
func (s Status) Ended() bool { return s == Revoked || s == Expired || s == Exhausted }

// Limits are the limits of an authority. The zero value of each is no limit.
type Limits struct {
	MaxCostCents float64
	MaxCalls     int
	// Models are the allowed models, by name, by provider and name, or by the vendor's own name.
	Models    []string
	ExpiresAt time.Time
	// AllowedTools are patterns of the tools that it may call, "server/tool".
	AllowedTools []string
	MaxToolCalls int
}

// Allows reports whether a model may be used, given all its names.
func (l Limits) Allows(names ...string) bool {
	return len(l.Models) == 0 || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(l.Models, n) })
}

// AllowsTool reports whether a tool of a server may be called. Each half of a pattern, before and after its first slash,
// must match; a pattern without a slash matches nothing.
func (l Limits) AllowsTool(server, tool string) bool {
	return len(l.AllowedTools) == 0 || slices.ContainsFunc(l.AllowedTools, func(p string) bool {
		servers, tools, ok := strings.Cut(p, "/")
		return ok && pattern.Matches(servers, server) && pattern.Matches(tools, tool)
	})
}

// EndReason is which limit ended a run.
type EndReason string

// The reasons. NoEndReason is that of a run that has not ended by a limit, or that an earlier release ended.
const (
	NoEndReason     EndReason = ""
	EndMaxCostCents EndReason = "max_cost_cents"
	EndMaxCalls     EndReason = "max_calls"
	EndMaxToolCalls EndReason = "max_tool_calls"
	EndToolLoop     EndReason = "tool_loop"
	EndMaxDepth     EndReason = "max_depth"
)

// Abort is a request of an operator or of the organization itself that a session stop. The zero Abort is no request.
type Abort struct {
	RequestedAt time.Time
	By, Reason  string
}

// Requested reports whether an abort was requested.
func (a Abort) Requested() bool { return !a.RequestedAt.IsZero() }

// Run is an authority, or, with the status Unminted, a session whose abort was requested.
type Run struct {
	Organization, ID string
	// Parent is the run that gave it a part of its authority, empty for none; Depth is how many runs are above it.
	Parent      string
	Depth       int
	Status      Status
	Limits      Limits
	InitiatedBy string
	ApprovalRef string
	Metadata    map[string]string
	// Times are zero until their event has happened.
	CreatedAt, ActivatedAt, EndedAt time.Time
	RevokedBy, RevokeReason         string
	// EndReason is which limit ended it, with the status Exhausted.
	EndReason EndReason
	Abort     Abort
}

// Usage is what a session has used.
type Usage struct {
	SpentCents, ReservedCents float64
	// Calls counts the billed calls, InFlight those in flight. Elsewhere is the number in flight that other replicas
	// reported, at most a second ago.
	Calls, InFlight, Elsewhere int64
	// ToolCalls counts the calls of tools that were made, ToolsInFlight those in flight.
	ToolCalls, ToolsInFlight int64
	// FirstCallAt and LastCallAt are zero before the first call.
	FirstCallAt, LastCallAt time.Time
}

// Used is a run and what it has used.
type Used struct {
	Run   Run
	Usage Usage
}

// Filter selects an organization's minted runs, newest first. Empty fields select all.
type Filter struct {
	Organization string
	Parent       string
	Status       Status
	// Since and Until bound when a run was minted, the first inclusively.
	Since, Until time.Time
	// BeforeCreated and BeforeID are those of the last run of the page before.
	BeforeCreated time.Time
	BeforeID      string
	Limit         int
}

// SessionFilter selects an organization's sessions, by run id.
type SessionFilter struct {
	Organization string
	// InFlight selects those that had calls in flight at most a second ago.
	InFlight bool
	// After is the id of the last session of the page before.
	After string
	Limit int
}

// spent returns which limit is used up.
func (l Limits) spent(u Usage) EndReason {
	switch {
	case l.MaxCostCents > 0 && u.SpentCents >= l.MaxCostCents:
		return EndMaxCostCents
	case l.MaxCalls > 0 && u.Calls >= int64(l.MaxCalls):
		return EndMaxCalls
	case l.MaxToolCalls > 0 && u.ToolCalls >= int64(l.MaxToolCalls):
		return EndMaxToolCalls
	}
	return NoEndReason
}

// At returns the run as it is at a moment, given its usage: it includes an end that has been reached but not stored
// yet.
func (r Run) At(now time.Time, u Usage) Run {
	if r.Status == Minted && !u.FirstCallAt.IsZero() {
		r.Status, r.ActivatedAt = Active, u.FirstCallAt
	}
	if r.Status == Unminted || r.Status.Ended() {
		return r
	}
	switch spent := r.Limits.spent(u); {
	case !now.Before(r.Limits.ExpiresAt):
		r.Status, _ = r.Status.Next(Expire)
		r.EndedAt = r.Limits.ExpiresAt
	case spent != NoEndReason:
		r.Status, _ = r.Status.Next(Exhaust)
		r.EndedAt, r.EndReason = u.LastCallAt, spent
	}
	return r
}

// Refusal returns why no call of the run may begin or continue at a moment, or nil. It does not consider the run's
// usage.
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

// Session statuses in addition to those of an authority that has ended.
const (
	SessionActive   = "active"
	SessionIdle     = "idle"
	SessionAborting = "aborting"
	SessionAborted  = "aborted"
)

// ActiveFor is how long after its last call a session counts as active.
const ActiveFor = time.Minute

// SessionStatus returns what a session is doing: the end of its authority, its abort, or whether it was called
// recently.
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

// ErrMinted refuses to mint a run twice; ErrMintAborted refuses to mint one whose abort was requested.
var (
	ErrMinted      = apierr.New(apierr.KindConflict, apierr.ReasonConflict, "run_id: this run has been minted already")
	ErrMintAborted = apierr.New(apierr.KindConflict, ReasonAborted, "run_id: the session was asked to stop")
	// ErrNotFound is the error of a run that was never minted.
	ErrNotFound = apierr.NotFound("run_id: run")
	// ErrAmbiguous is the error of an ID that runs of several organizations have.
	ErrAmbiguous = apierr.New(apierr.KindConflict, apierr.ReasonConflict,
		"organization_id: is required, since several organizations have a run of this id")
)

// Revoked returns the revoked run, or false if it was revoked already. The error is ErrNotFound for a run without an
// authority, and a conflict for one that has ended otherwise.
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

// denied returns a refusal by a limit, which repeating the call does not change.
func denied(reason apierr.Reason, text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: reason, Class: apierr.ClassPolicy, Text: text}
}
