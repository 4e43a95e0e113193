package approval

import (
	"time"

	"switchyard.dev/services/gateway/internal/content/canonical"
	"switchyard.dev/services/platform/apierr"
)

// State is the state of an exact call's execution. A call is Waiting for its decision or its caller, Claimed by a replica
// that is about to make it, and Sent before the first byte leaves. Closed calls are not made by their approval any more.
type State string

// The states.
const (
	Waiting State = "waiting"
	Claimed State = "claimed"
	Sent    State = "sent"
	Done    State = "done"
	Failed  State = "failed"
	Unknown State = "unknown" // sent, without a result
	Closed  State = "closed"
)

// Execution is the one call that an approval allows, and what became of it.
type Execution struct {
	// Digest identifies the call, Definition the reviewed definition of its tool; see Exact.
	Digest, Definition [32]byte
	// Policy is the version of the policy whose Rule demands the approval by the group Approvers.
	Policy, Rule, Approvers string
	// Page reports whether an approval by token has to be given on a page, StandingAllowed whether calls may be approved in
	// advance.
	Page, StandingAllowed bool
	// Price is what the call costs, in pico-USD. ReviewedBy reviewed the definition.
	Price      int64
	ReviewedBy string
	// Redacted are the kinds of data that were removed from the arguments.
	Redacted []string
	// UnknownRef is the approval of an earlier same call whose outcome is unknown, StandingRef the standing approval that
	// decided it; each is empty for none.
	UnknownRef, StandingRef string

	State State
	// Attempt counts the claims. The lease of a claim, or of a call that was sent, is Replica's until LeaseUntil.
	Attempt    int
	Replica    string
	LeaseUntil time.Time
	// SentAt and EndedAt are zero before.
	SentAt, EndedAt time.Time
}

// Exact is a call of a tool that a rule demands an approval for.
type Exact struct {
	Organization, Run string
	// Server is the server's id, Tool its own name of the tool. Definition is the digest of the tool's definition.
	Server, Tool string
	Definition   [32]byte
	// RequestedBy is who asks, User the user of the request; empty for none.
	RequestedBy, User string
	// Arguments are in their canonical form.
	Arguments []byte
	// Policy is the policy's version. The others are as in Execution.
	Policy, Rule, Approvers string
	Page, StandingAllowed   bool
	Price                   int64
	ReviewedBy              string
}

// Digest identifies the call: who asks for which tool of which server with which arguments.
func (c *Exact) Digest() [32]byte {
	return canonical.Digest("approval-call", []byte(c.Server), []byte(c.Tool), []byte(c.RequestedBy), []byte(c.User), c.Arguments)
}

// Stands is how long a decision counts: an approved call may be made that long after it, and a denied one, or one whose
// outcome is unknown, is refused that long.
const Stands = time.Hour

// Reasons of refused calls.
const (
	ReasonDenied     apierr.Reason = "approval_denied"
	ReasonInProgress apierr.Reason = apierr.ReasonConflict
	ReasonUnknown    apierr.Reason = "outcome_unknown"
)

// Errors of calls.
var (
	ErrDenied = &apierr.Error{
		Kind: apierr.KindForbidden, Reason: ReasonDenied, Class: apierr.ClassPolicy, Text: "the approval of this call was denied",
	}
	ErrInProgress = apierr.New(apierr.KindConflict, ReasonInProgress, "the same approved call is being made")
	ErrUnknown    = &apierr.Error{
		Kind: apierr.KindUpstream, Reason: ReasonUnknown, Class: apierr.ClassPolicy,
		Text: "the approved call was sent and got no answer: the tool may have run; it is not called again by itself",
	}
	// ErrLost refuses to send a call whose claim has run out or was taken over.
	ErrLost = apierr.Unavailable("the claim of the approval has run out; nothing was sent to the server", nil)
)

// Step is what happens next to a call.
type Step string

// The steps.
const (
	// Ask: a new approval is needed, and the one before, if it is open, is closed.
	Ask Step = "ask"
	// Wait: the approval is pending.
	Wait Step = "wait"
	// Claim: the call may be claimed.
	Claim Step = "claim"
	// Lose: the call was sent and its lease has run out, so that its outcome is unknown.
	Lose Step = "lose"
)

// Next returns what happens to a call whose latest approval is a, at a moment. The error, which has no step, is ErrDenied,
// ErrInProgress or ErrUnknown.
func (a *Approval) Next(c *Exact, now time.Time) (Step, error) {
	x := a.Call
	switch x.State {
	case Waiting:
		return a.nextWaiting(c, now)
	case Claimed:
		switch {
		case now.Before(x.LeaseUntil):
			return "", ErrInProgress
		case !a.stands(c, now):
			return Ask, nil
		}
		return Claim, nil
	case Sent:
		if now.Before(x.LeaseUntil) {
			return "", ErrInProgress
		}
		return Lose, nil
	case Unknown:
		if now.Before(x.EndedAt.Add(Stands)) {
			return "", ErrUnknown
		}
	case Done, Failed, Closed:
	}
	return Ask, nil
}

func (a *Approval) nextWaiting(c *Exact, now time.Time) (Step, error) {
	switch a.At(now).Status {
	case Pending:
		if a.Call.fresh(c) {
			return Wait, nil
		}
	case Approved:
		if a.stands(c, now) {
			return Claim, nil
		}
	case Denied:
		if a.stands(c, now) {
			return "", ErrDenied
		}
	case Expired, Superseded:
	}
	return Ask, nil
}

// stands reports whether the decision counts for a call at a moment.
func (a *Approval) stands(c *Exact, now time.Time) bool {
	return a.Call.fresh(c) && now.Before(a.DecidedAt.Add(Stands))
}

// fresh reports whether the decision is about the call as it is now: under this policy, with this definition.
func (x *Execution) fresh(c *Exact) bool { return x.Policy == c.Policy && x.Definition == c.Definition }
