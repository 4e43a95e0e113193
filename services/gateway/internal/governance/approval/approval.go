// Package approval is people's decisions on tool executions. An approval is
// pending until an approver approves or denies it or its time runs out, and a
// decision is final. Package api asks for decisions and makes them, package
// inference holds tool calls to them; internal/postgres keeps them.
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

// Status of an approval.
type Status string

// The statuses. All but Pending are final.
const (
	Pending  Status = "pending"
	Approved Status = "approved"
	Denied   Status = "denied"
	Expired  Status = "expired"
)

// Event is what may happen to an approval.
type Event string

// The events.
const (
	Approve Event = "approve"
	Deny    Event = "deny"
	Lapse   Event = "lapse" // its time ran out
)

// transitions are all that there are.
var transitions = map[Status]map[Event]Status{
	Pending: {Approve: Approved, Deny: Denied, Lapse: Expired},
}

// DefaultTTL is how long an approval waits for its decision where no TTL is given.
const DefaultTTL = 15 * time.Minute

// Approval is a decision, asked for or made. Empty texts were not given.
type Approval struct {
	// ID orders approvals by their creation; the store gives it.
	ID           int64
	Ref          string
	Organization string
	Status       Status
	// Tool to execute, with Arguments: JSON as it came, nil for any.
	Tool      string
	Arguments json.RawMessage
	// RequestedBy wants it executed, in Run, at the server that offers the tool.
	RequestedBy, Run, Server string
	Description              string
	DecidedBy, Reason        string
	DecidedAt                time.Time
	CreatedAt, ExpiresAt     time.Time
}

// Reasons of decisions that are refused. ReasonExpired is also that of a tool
// call that was not approved in time.
const (
	ReasonDecided apierr.Reason = "approval_decided"
	ReasonExpired apierr.Reason = "approval_expired"
)

// Errors of decisions and of the store.
var (
	ErrNotFound = apierr.NotFound("approval")
	ErrDecided  = apierr.New(apierr.KindConflict, ReasonDecided, "the approval has been decided; a decision is final")
	ErrExpired  = apierr.New(apierr.KindConflict, ReasonExpired, "the approval expired before it was decided")
	// ErrNotIndependent: who asked for an approval can't decide on it.
	ErrNotIndependent = &apierr.Error{
		Kind: apierr.KindForbidden, Reason: principal.ReasonNotIndependent, Class: apierr.ClassPolicy,
		Text: "decided_by: must be another principal than requested_by",
	}
)

// New makes a pending approval of what is asked for, with a ref of 130 random
// bits. A ttl of zero is DefaultTTL.
func New(asked Approval, ttl time.Duration, now time.Time) Approval {
	if ttl == 0 {
		ttl = DefaultTTL
	}
	asked.Ref, asked.Status = "apr_"+rand.Text(), Pending
	asked.CreatedAt, asked.ExpiresAt = now, now.Add(ttl)
	return asked
}

// At is the approval as it is at a moment: one that is still pending when its
// time has run out is expired.
func (a Approval) At(now time.Time) Approval {
	if next, ok := transitions[a.Status][Lapse]; ok && !now.Before(a.ExpiresAt) {
		a.Status = next
	}
	return a
}

// Decision is a caller's decision on an approval.
type Decision struct {
	// Event is Approve or Deny.
	Event      Event
	By, Reason string
	// User is the one for whom the caller speaks, by its headers; empty for none.
	User string
}

// Decide makes a decision at a moment. The error is ErrDecided, ErrExpired or
// ErrNotIndependent.
func (a Approval) Decide(d Decision, now time.Time) (Approval, error) {
	a = a.At(now)
	next, ok := transitions[a.Status][d.Event]
	switch {
	case ok && (principal.Same(d.By, a.RequestedBy) || d.User != "" && principal.Same(d.User, a.RequestedBy)):
		return a, ErrNotIndependent
	case ok:
		a.Status, a.DecidedBy, a.DecidedAt, a.Reason = next, d.By, now, d.Reason
		return a, nil
	case a.Status == Expired:
		return a, ErrExpired
	}
	return a, ErrDecided
}

// Filter selects approvals; empty fields but Organization select all.
type Filter struct {
	Organization, Run, Tool string
	Status                  Status
	// Before is the ID of the last one of the page before; 0 for the first page.
	Before int64
	// Limit of the page, at least 1.
	Limit int
}

// Store keeps approvals. One of another organization is ErrNotFound.
type Store interface {
	// Create stores a new approval with its audit entry.
	Create(ctx context.Context, a Approval, entry *audit.Entry) error
	Get(ctx context.Context, organization, ref string) (Approval, error)
	// Decide makes a decision with its audit entry. Of concurrent ones the first
	// settles it and the others get ErrDecided.
	Decide(ctx context.Context, organization, ref string, d Decision, now time.Time, entry *audit.Entry) (Approval, error)
	// List gives a page, newest first, by the statuses of a moment.
	List(ctx context.Context, f Filter, now time.Time) ([]Approval, error)
}
