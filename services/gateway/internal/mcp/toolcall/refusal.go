package toolcall

import (
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
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
	// ReasonNotOffered: the server's registration doesn't offer the feature.
	ReasonNotOffered apierr.Reason = "feature_not_offered"
	// ReasonResourceNotFound: there is no such resource or prompt.
	ReasonResourceNotFound apierr.Reason = "resource_not_found"
	// ReasonAmbiguous: several servers have the resource.
	ReasonAmbiguous apierr.Reason = "resource_ambiguous"
	// ReasonUnauthorized: the server takes no credential of the gateway.
	ReasonUnauthorized apierr.Reason = "tool_server_unauthorized"
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
	ErrNotOffered       = apierr.New(apierr.KindNotFound, ReasonNotOffered, "the server does not offer this to callers")
	ErrResourceNotFound = apierr.New(apierr.KindNotFound, ReasonResourceNotFound,
		"it does not exist; what no server lists is read from its server, at /mcp/{server}")
	ErrAmbiguous = apierr.New(apierr.KindConflict, ReasonAmbiguous,
		"more than one server has this URI; use /mcp/{server}")
	errOffersAway   = apierr.Unavailable("what the server offers can't be read at the moment", nil)
	errOwnerUnknown = apierr.Unavailable("a server can't be asked at the moment, so that it is not known whose the URI is; use /mcp/{server}", nil)
	errUnavailable  = apierr.Unavailable("the server can't be reached at the moment; the call was not made", nil)
	errTrustAway    = apierr.Unavailable("the levels of trust can't be read at the moment; nothing was sent to the server", nil)
	errListingAway  = apierr.Unavailable("the server's definitions can't be read at the moment; nothing was sent to the server", nil)
	errLedgerAway   = apierr.Unavailable("usage can't be recorded at the moment; nothing was sent to the server", nil)
	errUnsupported  = &apierr.Error{
		Kind: apierr.KindUpstream, Reason: apierr.ReasonNotImplemented, Class: apierr.ClassPolicy,
		Text: "the server answered with a request of its own, which is not supported",
	}
)

// denied returns a refusal by a rule, which repeating the call does not change.
func denied(reason apierr.Reason, text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: reason, Class: apierr.ClassPolicy, Text: text}
}

// unauthorized returns the error of a call that was not made, as the server takes no credential of the gateway.
func unauthorized(cause *upstream.Error) *apierr.Error {
	e := &apierr.Error{
		Kind: apierr.KindUpstream, Reason: ReasonUnauthorized, Class: apierr.ClassAuth, Text: "the call was not made: " + cause.Text,
	}
	return e.Wrap(cause)
}
