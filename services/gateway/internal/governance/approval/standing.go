package approval

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/expression"
)

// StandingApproval approves calls of a tool in advance, as long as its definition stays what it was.
type StandingApproval struct {
	// ID orders them by their creation; the store sets it.
	ID                         int64
	Ref                        string
	Organization, Server, Tool string
	Definition                 [32]byte
	// When is the expression in CEL that a call must satisfy.
	When string
	// Uses is how many calls it approves, Used how many it has approved.
	Uses, Used int
	// Approval is the ref of the decision that it was made from.
	Approval             string
	CreatedBy, Reason    string
	CreatedAt, ExpiresAt time.Time
	// RevokedBy and RevokedAt are zero unless it was revoked.
	RevokedBy string
	RevokedAt time.Time
}

// Statuses of standing approvals.
const (
	StandingActive  = "active"
	StandingUsedUp  = "used_up"
	StandingExpired = "expired"
	StandingRevoked = "revoked"
)

// StatusAt returns the status at a moment.
func (s *StandingApproval) StatusAt(now time.Time) string {
	switch {
	case !s.RevokedAt.IsZero():
		return StandingRevoked
	case s.Used >= s.Uses:
		return StandingUsedUp
	case !now.Before(s.ExpiresAt):
		return StandingExpired
	}
	return StandingActive
}

// ReasonStandingNotAllowed is the reason where a rule doesn't allow approvals in advance for the tool.
const ReasonStandingNotAllowed apierr.Reason = "standing_not_allowed"

// MaxStanding is the largest number of active standing approvals of a tool in an organization.
const MaxStanding = 20

// Errors of standing approvals.
var (
	ErrStandingNotFound   = apierr.NotFound("standing approval")
	ErrStandingNotAllowed = &apierr.Error{
		Kind: apierr.KindForbidden, Reason: ReasonStandingNotAllowed, Class: apierr.ClassPolicy,
		Text: "a rule of the policy does not allow calls of this tool to be approved in advance",
	}
	ErrNotApproved  = apierr.New(apierr.KindConflict, apierr.ReasonConflict, "approval_ref: names no approval of an exact call that was approved")
	ErrManyStanding = apierr.New(apierr.KindConflict, apierr.ReasonConflict, "the tool has as many active standing approvals as may be; revoke one of them")
)

// Stand returns a standing approval made from an approval, with the uses, the expression and the time of wanted.
func (a *Approval) Stand(wanted StandingApproval, user string, now time.Time) (StandingApproval, error) {
	switch {
	case a.Call == nil || a.Status != Approved || a.Call.StandingRef != "":
		return StandingApproval{}, ErrNotApproved
	case !a.Call.StandingAllowed:
		return StandingApproval{}, ErrStandingNotAllowed
	case a.AskedBy(wanted.CreatedBy) || a.AskedBy(user):
		return StandingApproval{}, ErrNotIndependent
	}
	wanted.Ref, wanted.CreatedAt = "std_"+rand.Text(), now
	wanted.Organization, wanted.Server, wanted.Tool, wanted.Definition = a.Organization, a.Server, a.Tool, a.Call.Definition
	wanted.Approval = a.Ref
	return wanted, nil
}

// Covers reports whether a standing approval may decide a, of a call that satisfies its expression: the tool's definition is
// the same, the call's rules allow it, and its creator isn't who asks.
func (s *StandingApproval) Covers(asked *Asked, a *Approval) bool {
	return asked.StandingAllowed && s.Definition == asked.Definition && !a.AskedBy(s.CreatedBy)
}

// StandingFilter selects standing approvals; empty fields except Organization select all.
type StandingFilter struct {
	Organization, Server, Tool string
	// Before is the ID of the last one of the previous page; 0 for the first page.
	Before int64
	// Limit is the size of the page, at least 1.
	Limit int
}

// StandingStore stores standing approvals.
type StandingStore interface {
	// CreateStanding makes a standing approval from the approval that wanted names, with its audit entry.
	CreateStanding(ctx context.Context, organization string, wanted StandingApproval, user string, now time.Time, entry *audit.Entry) (StandingApproval, error)
	ListStanding(ctx context.Context, f StandingFilter) ([]StandingApproval, error)
	// RevokeStanding ends one that is active; ErrStandingNotFound otherwise.
	RevokeStanding(ctx context.Context, organization, ref, by string, now time.Time, entry *audit.Entry) error
}

// Expressions compiles and evaluates the expressions of standing approvals. Safe for concurrent use.
type Expressions struct{ engine *expression.Engine }

// NewExpressions returns Expressions over the variables of rules.
func NewExpressions() (*Expressions, error) {
	engine, err := expression.New(toolrule.Variables()...)
	if err != nil {
		return nil, err
	}
	return &Expressions{engine}, nil
}

// Check refuses an organization's expression that can't be used, and all of its expressions (429) while it has compiled too
// many.
func (e *Expressions) Check(organization, when string) error {
	err := e.engine.Check(organization, when)
	if wrong, ok := errors.AsType[*expression.Error](err); ok {
		return apierr.Invalid("when", wrong.Rule)
	}
	return err
}

// Matcher returns a function that reports whether a call satisfies an expression. An expression that fails, or costs too
// much, doesn't match.
func (e *Expressions) Matcher(c *Exact) func(when string) bool {
	call := toolrule.Call{Server: c.Server, Tool: c.Tool, Organization: c.Organization, User: c.User, Run: c.Run}
	evaluator := e.engine.Evaluator(c.Organization, call.Values(), toolrule.VariableArguments, c.Arguments)
	return func(when string) bool {
		result, _ := evaluator.Evaluate(when)
		return result == expression.True
	}
}
