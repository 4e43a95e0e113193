package api

import (
	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/platform/apidoc"
)

// decisionTarget is the path at which the role control shows users what they decide on, and takes their decisions.
const decisionTarget = "/v1/approvals/{ref}/decision"

// choiceSchema returns the schema of a decision that a user makes.
func choiceSchema() apidoc.Object {
	choice := object("A decision.", apidoc.Object{
		"decision":        apidoc.Object{"type": "string", "enum": []any{decision.Approve, decision.Deny}, "description": "What the user decides."},
		"reason":          bounded("Why.", 0, decision.MaxReason),
		"display_version": bounded("That of what the user was shown; required to approve.", 0, decision.MaxVersion),
	})
	choice["required"] = []any{"decision"}
	return choice
}

// decisionSchema returns the schema of what a user decides on.
func decisionSchema() apidoc.Object {
	return object("What the user decides on, and what became of it.", apidoc.Object{
		"ref": text("The approval."), "organization_id": text("Whose it is."), "status": text("pending, approved or denied."),
		"approver": text("The user."), "channel": text("How the user is identified: user_token, or portal."),
		"server_id": text("The server of the tool."), "tool": text("The tool."),
		"arguments":    apidoc.Object{"description": "The arguments, without personal data and secrets."},
		"requested_by": text("Who asks."), "run_id": text("The run that asks."), "description": text("Information from who asks."),
		"call":            apidoc.Object{"type": []any{"object", "null"}, "description": "The exact call, with its rule, price, digests and group of approvers."},
		"display_version": text("The version of what is shown, for the decision."),
		"created_at":      text("When it was asked for."), "expires_at": text("When it expires."),
		"decided_by": text("Who decided."), "decided_via": text("How."), "decided_at": text("When."), "reason": text("Why."),
	})
}
