package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/platform/apierr"
)

// MaxArguments is the largest size of the arguments of a call that a person can approve, in bytes.
const MaxArguments = 256 << 10

// MaxWaiting is the largest number of approvals of calls that wait for a decision in an organization.
const MaxWaiting = 500

// claimTime is the lease of a claim: from the approval to the first byte.
const claimTime = 30 * time.Second

// ErrTooLarge and ErrTooMany refuse calls that no approval is asked for.
var (
	ErrTooLarge = &apierr.Error{
		Kind: apierr.KindForbidden, Reason: "approval_required", Class: apierr.ClassPolicy,
		Text: fmt.Sprintf("the call needs an approval, but no person can approve arguments of more than %d bytes", MaxArguments),
	}
	ErrTooMany = &apierr.Error{
		Kind: apierr.KindRateLimited, Reason: apierr.ReasonRateLimited,
		Text: fmt.Sprintf("%d calls of the organization wait for approvals; decide some of them first", MaxWaiting), RetryAfter: time.Minute,
	}
)

// Asked is a call that asks for its approval.
type Asked struct {
	*Exact
	// New is the approval that is created where there is none.
	New Approval
	// Matches reports whether the call satisfies the expression of a standing approval.
	Matches func(when string) bool
	Lease   Lease
	// Entry is the audit entry of a new approval.
	Entry *audit.Entry
}

// Lease is a replica's, until a moment.
type Lease struct {
	Replica string
	Until   time.Time
}

// CallStore stores exact calls with their approvals.
type CallStore interface {
	// Require returns the approval of a call: pending, or claimed for one execution under the lease. The error is one of
	// Next, with the approval that it is about, or ErrTooMany.
	Require(ctx context.Context, asked *Asked, now time.Time) (Approval, error)
	// Send commits that the call leaves now; its result is awaited until a moment. The error is ErrLost where the claim isn't
	// the replica's any more.
	Send(ctx context.Context, claimed *Approval, until, now time.Time) error
	// Release gives back a claim of which nothing has left. A claim that isn't the replica's any more stays as it is.
	Release(ctx context.Context, claimed *Approval) error
	// Settle writes how a call has ended that was sent: Done, Failed or Unknown.
	Settle(ctx context.Context, claimed *Approval, state State, now time.Time) error
	// Lose ends calls that were sent and whose leases have run out, at most limit, and returns how many.
	Lose(ctx context.Context, limit int, now time.Time) (int, error)
	// Decided returns those of some approvals that wait no longer.
	Decided(ctx context.Context, refs []string, now time.Time) ([]string, error)
}

// Calls asks for the approvals of exact calls.
type Calls struct {
	Store CallStore
	// Redactor removes what approvers must not see from arguments.
	Redactor func() *redact.Redactor
	// Replica names this replica.
	Replica string
	// TTL is how long an approval waits for its decision.
	TTL time.Duration
	// Waiters wakes callers that wait.
	Waiters *Waiters
	// Conditions evaluates the expressions of standing approvals.
	Conditions *Expressions
}

// Require returns the approval of a call: claimed for one execution, or pending (State Waiting). The error is an
// *apierr.Error; the approval that it is about, if any, is returned with it.
func (s *Calls) Require(ctx context.Context, c *Exact) (Approval, error) {
	if len(c.Arguments) > MaxArguments {
		return Approval{}, ErrTooLarge
	}
	now := present()
	found := redact.Kinds{}
	shown := s.Redactor().JSON(c.Arguments, found)
	asked := Asked{
		Exact: c, Lease: Lease{s.Replica, now.Add(claimTime)},
		Matches: s.Conditions.Matcher(c),
		New: New(Approval{
			Organization: c.Organization, Tool: c.Tool, Arguments: shown, RequestedBy: c.RequestedBy, AskedUser: c.User, Run: c.Run, Server: c.Server,
			Call: &Execution{
				Digest: c.Digest(), Definition: c.Definition, Policy: c.Policy, Rule: c.Rule, Approvers: c.Approvers, Page: c.Page,
				StandingAllowed: c.StandingAllowed, Price: c.Price, ReviewedBy: c.ReviewedBy, Redacted: found.Sorted(), State: Waiting,
			},
		}, s.TTL, now),
	}
	entry := audit.New(ctx, "approval.create", audit.Subject{Type: "approval", ID: asked.New.Ref, Organization: c.Organization}, "")
	asked.Entry = &entry
	a, err := s.Store.Require(ctx, &asked, now)
	if err != nil {
		if refused, ok := errors.AsType[*apierr.Error](err); ok {
			return a, refused
		}
		return a, apierr.Unavailable("approvals can't be read at the moment; nothing was sent to the server", err)
	}
	return a, nil
}

// Wait waits as Waiters.Wait does.
func (s *Calls) Wait(ctx context.Context, organization, ref string, until time.Time) (decided bool, err error) {
	return s.Waiters.Wait(ctx, organization, ref, until)
}

// Send commits that a claimed call leaves now.
func (s *Calls) Send(ctx context.Context, claimed *Approval, within time.Duration) error {
	now := present()
	err := s.Store.Send(ctx, claimed, now.Add(within), now)
	if err != nil && !errors.Is(err, ErrLost) {
		err = apierr.Unavailable("the approval can't be used at the moment; nothing was sent to the server", err)
	}
	return err
}

// Release gives back a claim of which nothing has left.
func (s *Calls) Release(ctx context.Context, claimed *Approval) error {
	return s.Store.Release(ctx, claimed)
}

// Settle writes how a call has ended that was sent.
func (s *Calls) Settle(ctx context.Context, claimed *Approval, state State) error {
	return s.Store.Settle(ctx, claimed, state, present())
}

// present returns the time at the precision of stores.
func present() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
