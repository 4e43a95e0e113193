// Package approval holds people's decisions on tool executions. An approval is pending until an approver approves or
// denies it or its time runs out, and a decision is final. Package api creates and decides approvals, package inference
// releases tool calls of models by them; internal/postgres stores them.
//
// An approval that a rule of the policy demands for a call of a tool is bound to this exact call and allows it once: its
// Execution says what became of it. Package toolcall asks for such approvals by Calls. Approvers decide by tokens (Token),
// and may approve further calls in advance (StandingApproval).
package approval

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/platform/apierr"
)

// Status is the status of an approval.
type Status string

// The statuses. All but Pending are final.
const (
	Pending  Status = "pending"
	Approved Status = "approved"
	Denied   Status = "denied"
	Expired  Status = "expired"
	// Superseded is an approval that another one took the place of before it was decided.
	Superseded Status = "superseded"
)

// Event is an event in the life of an approval.
type Event string

// The events.
const (
	Approve Event = "approve"
	Deny    Event = "deny"
	Lapse   Event = "lapse" // its time ran out
	// Supersede ends its time, because the policy or the tool's definition has changed.
	Supersede Event = "supersede"
)

// transitions holds all valid transitions.
var transitions = map[Status]map[Event]Status{
	Pending: {Approve: Approved, Deny: Denied, Lapse: Expired, Supersede: Superseded},
}

// ended reports whether the time of an approval with the status has ended without a decision.
func (s Status) ended() bool { return s == Expired || s == Superseded }

// DefaultTTL is how long an approval without a TTL waits for its decision.
const DefaultTTL = 15 * time.Minute

// Approval is a requested or made decision. Empty texts were not given.
type Approval struct {
	// ID orders approvals by their creation; the store sets it.
	ID           int64
	Ref          string
	Organization string
	Status       Status
	// Tool is the tool to execute with Arguments: JSON as received, nil for any.
	Tool      string
	Arguments json.RawMessage
	// RequestedBy asked to execute the tool in Run, on the server Server that offers it.
	RequestedBy, Run, Server string
	// AskedUser is the user of the request that asked. InitiatedBy are those who initiated the run and the runs above it; the
	// store sets it.
	AskedUser         string
	InitiatedBy       []string
	Description       string
	DecidedBy, Reason string
	// Via is how it was decided: ViaAPI, ViaStanding or the channel of a token; empty before.
	Via                  string
	DecidedAt            time.Time
	CreatedAt, ExpiresAt time.Time
	// Call is the exact call that it is bound to; nil for none.
	Call *Execution
}

// How approvals are decided without a token.
const (
	ViaAPI      = "api"
	ViaStanding = "standing"
)

// Reasons of refused decisions. ReasonExpired is also the reason of a tool call that was not approved in time.
const (
	ReasonDecided apierr.Reason = "approval_decided"
	ReasonExpired apierr.Reason = "approval_expired"
)

// Errors of decisions and of the store.
var (
	ErrNotFound = apierr.NotFound("approval")
	ErrDecided  = apierr.New(apierr.KindConflict, ReasonDecided, "the approval has been decided; a decision is final")
	ErrExpired  = apierr.New(apierr.KindConflict, ReasonExpired, "the approval expired before it was decided")
	// ErrNotIndependent refuses a decision by the principal that requested the approval.
	ErrNotIndependent = &apierr.Error{
		Kind: apierr.KindForbidden, Reason: principal.ReasonNotIndependent, Class: apierr.ClassPolicy,
		Text: "decided_by: must be another principal than requested_by, the user who asked and who initiated the run",
	}
)

// New returns a pending approval for asked, with a ref of 130 random bits. A ttl of 0 is DefaultTTL.
func New(asked Approval, ttl time.Duration, now time.Time) Approval {
	if ttl == 0 {
		ttl = DefaultTTL
	}
	asked.Ref, asked.Status = "apr_"+rand.Text(), Pending
	asked.CreatedAt, asked.ExpiresAt = now, now.Add(ttl)
	return asked
}

// At returns the approval as it is at a moment: a pending one whose time has run out is expired, or superseded if its call was
// closed by then.
func (a Approval) At(now time.Time) Approval {
	event := Lapse
	if x := a.Call; x != nil && x.State == Closed && !x.EndedAt.After(a.ExpiresAt) {
		event = Supersede
	}
	if next, ok := transitions[a.Status][event]; ok && !now.Before(a.ExpiresAt) {
		a.Status = next
	}
	return a
}

// Decision is a caller's decision on an approval.
type Decision struct {
	// Event is Approve or Deny.
	Event      Event
	By, Reason string
	// User is the user for whom the caller acts, from its headers; empty for none.
	User string
	// Via is how it is decided; see Approval.
	Via string
}

// AskedBy reports whether a principal asked for the execution, under any of the names that are known.
func (a *Approval) AskedBy(name string) bool {
	for _, asker := range append([]string{a.RequestedBy, a.AskedUser}, a.InitiatedBy...) {
		if name != "" && asker != "" && principal.Same(name, asker) {
			return true
		}
	}
	return false
}

// Decide returns the approval with a decision made at a moment. The error is ErrDecided, ErrExpired or
// ErrNotIndependent.
func (a Approval) Decide(d Decision, now time.Time) (Approval, error) {
	a = a.At(now)
	next, ok := transitions[a.Status][d.Event]
	switch {
	case ok && (a.AskedBy(d.By) || a.AskedBy(d.User)):
		return a, ErrNotIndependent
	case ok:
		a.Status, a.DecidedBy, a.DecidedAt, a.Reason, a.Via = next, d.By, now, d.Reason, d.Via
		return a, nil
	case a.Status.ended():
		return a, ErrExpired
	}
	return a, ErrDecided
}

// Filter selects approvals; empty fields except Organization select all.
type Filter struct {
	Organization, Run, Tool string
	Status                  Status
	// Before is the ID of the last approval of the previous page; 0 for the first page.
	Before int64
	// Limit is the size of the page, at least 1.
	Limit int
}

// Store stores approvals. An approval of another organization is ErrNotFound.
type Store interface {
	// Create stores a new approval with its audit entry.
	Create(ctx context.Context, a Approval, entry *audit.Entry) error
	Get(ctx context.Context, organization, ref string) (Approval, error)
	// Decide makes a decision with its audit entry. Of concurrent decisions the first wins and the others get
	// ErrDecided.
	Decide(ctx context.Context, organization, ref string, d Decision, now time.Time, entry *audit.Entry) (Approval, error)
	// List returns a page, newest first, with the statuses at a moment.
	List(ctx context.Context, f Filter, now time.Time) ([]Approval, error)
}
