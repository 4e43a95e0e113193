package toolcall

import (
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/platform/apierr"
)

// Reasons of refusals.
const (
	// ReasonUntrusted: the server's level of trust is too low for the tool.
	ReasonUntrusted apierr.Reason = "server_untrusted"
	// ReasonApprovalRequired: a person has to approve the call first.
	ReasonApprovalRequired apierr.Reason = "approval_required"
	// ReasonOutcomeUnknown: the call was sent, and no answer came.
	ReasonOutcomeUnknown = approval.ReasonUnknown
)

// Refusals of calls.
var (
	ErrServerNotFound   = apierr.NotFound("server")
	ErrUntrusted        = denied(ReasonUntrusted, "the server's level of trust is lower than the policy demands for this tool")
	ErrApprovalRequired = denied(ReasonApprovalRequired, "a person has to approve this exact call before it is made")
	// ErrOutcomeUnknown is the error of a call that was sent and got no answer. It is not made again.
	ErrOutcomeUnknown = &apierr.Error{
		Kind: apierr.KindUpstream, Reason: ReasonOutcomeUnknown, Class: apierr.ClassPolicy,
		Text: "the call was sent and got no answer: the tool may have run; it is not called again by itself",
	}
	errUnavailable = apierr.Unavailable("the server can't be reached at the moment; the call was not made", nil)
	errTrustAway   = apierr.Unavailable("the levels of trust can't be read at the moment; nothing was sent to the server", nil)
	errListingAway = apierr.Unavailable("the server's definitions can't be read at the moment; nothing was sent to the server", nil)
	errLedgerAway  = apierr.Unavailable("usage can't be recorded at the moment; nothing was sent to the server", nil)
	errUnsupported = &apierr.Error{
		Kind: apierr.KindUpstream, Reason: apierr.ReasonNotImplemented, Class: apierr.ClassPolicy,
		Text: "the server answered with a request of its own, which is not supported",
	}
)

// denied returns a refusal by a rule, which repeating the call does not change.
func denied(reason apierr.Reason, text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: reason, Class: apierr.ClassPolicy, Text: text}
}
