//go:build e2e

package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

var byokControls = []control{
	{method: "ByokService.GetSealingKey", status: http.StatusOK, fields: []string{"key_id", "public_key", "kem_id", "kdf_id", "aead_id", "info_template"}},
	{
		method: "ByokService.ListByokConfigs", given: withConfig, status: http.StatusOK, fields: []string{"configs", "next_cursor"}, foreign: http.StatusOK,
		refusals: []refusal{badLimit, badCursor},
	},
	{
		method: "ByokService.PutByokConfig", given: withSecret, status: http.StatusCreated,
		body: func(f *fixture) object {
			return object{"provider": f.names["provider"], "secret_ref": "file:first.key", "owner_principal": "ada"}
		},
		fields: []string{"provider", "status", "custody", "masked_hint", "fingerprint", "version", "owner_principal", "created_at", "last_used_at", "stale"},
		refusals: append([]refusal{
			{why: "a provider that is not configured", body: object{"provider": "nobody"}, status: badRequest, code: "provider_unknown", text: "provider"},
			{why: "no provider", body: object{"provider": nil}, status: badRequest, code: invalid, text: "provider"},
		}, credentials...),
		late: http.StatusOK, action: "byok.put", rows: 10,
	},
	{
		method: "ByokService.GetByokConfig", given: withConfig, status: http.StatusOK, fields: []string{"masked_hint", "fingerprint"}, foreign: http.StatusNotFound,
		refusals: []refusal{noConfig},
	},
	{
		method: "ByokService.DeleteByokConfig", given: withConfig, status: http.StatusNoContent, foreign: http.StatusNotFound,
		refusals: []refusal{noConfig}, late: http.StatusNotFound, action: "byok.deactivate", rows: 1,
	},
	{
		method: "ByokService.RotateByokConfig", given: withTwoSecrets, status: http.StatusOK, foreign: http.StatusNotFound,
		body:     func(*fixture) object { return object{"secret_ref": "file:second.key"} },
		fields:   []string{"version", "rotated_at", "fingerprint"},
		refusals: append([]refusal{noConfig}, credentials...), action: "byok.rotate", rows: 10,
	},
	{
		method: "ByokService.GetByokLifecycle", given: withConfig, status: http.StatusOK, foreign: http.StatusNotFound,
		fields:   []string{"expires_at", "stale", "stale_reasons", "rotation_interval_days", "rotation_due_at", "owner_principal"},
		refusals: []refusal{noConfig},
	},
	{
		method: "ByokService.TransferByokConfig", given: withConfig, status: http.StatusOK, foreign: http.StatusNotFound,
		body:   func(*fixture) object { return object{"owner_principal": "bob"} },
		fields: []string{"owner_principal", "previous_owner_principal", "transferred_at"},
		refusals: []refusal{
			noConfig,
			{why: "to no owner", body: object{"owner_principal": nil}, status: badRequest, code: invalid, text: "owner_principal"},
			{why: "to its present owner", body: object{"owner_principal": "ada"}, status: http.StatusConflict, code: "conflict", text: "owner_principal"},
		},
		late: http.StatusConflict, action: "byok.transfer", rows: 1,
	},
	{
		method: "ByokService.PurgeByok", given: withConfig, status: http.StatusOK, fields: []string{"erased", "configs_remaining"}, foreign: http.StatusOK,
		action: "byok.purge", rows: 10,
	},
	{
		method: "ByokService.ListStaleByokConfigs", given: withConfig, status: http.StatusOK, fields: []string{"configs", "next_cursor"}, foreign: http.StatusOK,
		refusals: []refusal{badLimit, badCursor},
	},
}

var organizationControls = []control{
	{
		method: "OrganizationService.SuspendOrganization", status: http.StatusOK, body: func(*fixture) object { return object{"reason": "abuse"} },
		fields: []string{"organization_id", "suspended", "reason", "suspended_at", "suspended_by"}, refusals: []refusal{longOrg, longReason},
		action: "org.suspend", rows: 1,
	},
	{
		method: "OrganizationService.UnsuspendOrganization", given: suspendedOrg, status: http.StatusOK, fields: []string{"suspended"},
		refusals: []refusal{longOrg, longReason}, action: "org.unsuspend", rows: 1,
	},
	{
		method: "OrganizationService.GetOrganizationSpend", status: http.StatusOK, refusals: []refusal{longOrg},
		fields: []string{"spent_cents", "reserved_cents", "budget_ceiling_cents", "active_sessions", "period", "period_start"},
	},
	{
		method: "OrganizationService.SetOrganizationBudget", status: http.StatusOK, body: func(*fixture) object { return object{"budget_ceiling_cents": 7, "period": "day"} },
		fields: []string{"budget_ceiling_cents", "remaining_cents"},
		refusals: []refusal{
			longOrg, longReason,
			{why: "no ceiling", body: object{"budget_ceiling_cents": nil}, status: badRequest, code: invalid, text: "budget_ceiling_cents: is required"},
			{why: "a ceiling below nothing", body: object{"budget_ceiling_cents": -1}, status: badRequest, code: invalid, text: "budget_ceiling_cents"},
			{why: "a ceiling that is text", body: object{"budget_ceiling_cents": "a lot"}, status: badRequest, code: invalid, text: "budget_ceiling_cents"},
			{why: "a period that is none", body: object{"period": "week"}, status: badRequest, code: invalid, text: "period"},
		},
		action: "org.budget", rows: 1,
	},
	{method: "OrganizationService.PurgePromptCache", status: http.StatusOK, fields: []string{"purged", "remaining", "purged_at"}, foreign: http.StatusOK},
}

var runControls = []control{
	{
		method: "RunService.MintRun", status: http.StatusCreated,
		body: func(f *fixture) object {
			return object{"run_id": f.names["run_id"], "max_cost_cents": 5, "max_calls": 2, "models": []string{"sandbox"}, "ttl_seconds": 600, "allowed_tools": []string{"files/*"}, "max_tool_calls": 1}
		},
		fields: []string{"run_id", "status", "max_cost_cents", "max_calls", "models", "expires_at", "spent_cents", "calls", "allowed_tools", "max_tool_calls", "tool_calls"},
		refusals: []refusal{
			{why: "minted already", given: withRun, status: http.StatusConflict, code: "conflict", text: "run_id: this run has been minted already"},
			{why: "asked to stop", given: withAbort, status: http.StatusConflict, code: "run_aborted", text: "run_id"},
			{why: "a name that none can have", body: object{"run_id": "a b"}, status: badRequest, code: invalid, text: "run_id"},
			{why: "a ceiling of nothing", body: object{"max_cost_cents": 0}, status: badRequest, code: invalid, text: "max_cost_cents"},
			{why: "no calls", body: object{"max_calls": 0}, status: badRequest, code: invalid, text: "max_calls"},
			{why: "a tool without a server", body: object{"allowed_tools": []string{"read"}}, status: badRequest, code: invalid, text: "allowed_tools"},
			{why: "no calls of tools", body: object{"max_tool_calls": 0}, status: badRequest, code: invalid, text: "max_tool_calls"},
			{why: "a model twice", body: object{"models": []string{"sandbox", "sandbox"}}, status: badRequest, code: invalid, text: "models"},
			{why: "two ends", body: object{"expires_at": later(time.Hour)}, status: badRequest, code: invalid, text: "ttl_seconds: only without expires_at"},
			{why: "an end in the past", body: object{"ttl_seconds": nil, "expires_at": later(-time.Hour)}, status: badRequest, code: invalid, text: "expires_at: must be in the future"},
			{why: "an end too far away", body: object{"ttl_seconds": nil, "expires_at": later(31 * 24 * time.Hour)}, status: badRequest, code: invalid, text: "expires_at: must be within 30 days"},
		},
		late: http.StatusConflict, action: "run.mint", rows: 1,
	},
	{
		method: "RunService.ListRuns", given: withRun, status: http.StatusOK, fields: []string{"runs", "next_cursor"}, foreign: http.StatusOK,
		refusals: []refusal{badLimit, badCursor, {why: "a status that is none", query: "status=maybe", status: badRequest, code: invalid, text: "status"}},
	},
	{
		method: "RunService.GetRunAuthority", given: withRun, status: http.StatusOK, fields: []string{"status", "calls"}, foreign: http.StatusNotFound,
		refusals: []refusal{noRun},
	},
	{
		method: "RunService.RevokeRun", given: withRun, status: http.StatusOK, fields: []string{"status", "revoked_by", "ended_at"}, foreign: http.StatusNotFound,
		body: func(*fixture) object { return object{"reason": "runaway"} },
		refusals: []refusal{
			noRun, longReason,
			{why: "it has ended", given: withEndedRun, status: http.StatusConflict, code: "conflict", text: "run_id: the run has ended: exhausted"},
		},
		action: "run.revoke", rows: 1,
	},
	{
		method: "RunService.AbortSession", given: withRun, status: http.StatusOK, body: func(f *fixture) object { return object{"organization_id": f.organization} },
		fields: []string{"run_id", "organization_id", "status", "abort_requested", "abort_requested_at"},
		refusals: []refusal{
			longReason,
			{why: "a run that does not exist", bare: true, body: object{"organization_id": nil}, status: http.StatusNotFound, code: "not_found", text: "run"},
		},
		action: "session.abort", rows: 1,
	},
	{
		method: "RunService.GetSessionSpend", given: withRun, status: http.StatusOK, foreign: http.StatusNotFound,
		fields: []string{"run_id", "organization_id", "spent_cents", "reserved_cents", "calls", "status"}, refusals: []refusal{noRun},
	},
	{
		method: "SessionService.ListSessions", given: withRun, status: http.StatusOK, fields: []string{"sessions", "next_cursor"}, foreign: http.StatusOK,
		refusals: []refusal{badLimit, badCursor, {why: "a flag that is none", query: "in_flight=maybe", status: badRequest, code: invalid, text: "in_flight"}},
	},
	{
		method: "SessionService.GetSession", given: withRun, status: http.StatusOK, foreign: http.StatusNotFound,
		fields: []string{"run_id", "organization_id", "status", "spent_cents", "calls", "in_flight", "abort_requested"}, refusals: []refusal{noRun},
	},
	{
		method: "SessionService.AbortOwnSession", given: withRun, status: http.StatusOK, foreign: http.StatusNotFound,
		body:   func(*fixture) object { return object{"reason": "runaway"} },
		fields: []string{"run_id", "status", "abort_requested", "abort_requested_at"}, refusals: []refusal{noRun, longReason},
		action: "session.abort", rows: 1,
	},
}

var approvalControls = []control{
	{
		method: "ApprovalService.CreateApproval", status: http.StatusCreated,
		body: func(*fixture) object {
			return object{"tool": "t", "arguments": object{"n": 1}, "requested_by": "agent"}
		},
		fields: []string{"ref", "status", "expires_at", "arguments", "decided_by"},
		refusals: []refusal{
			{why: "no tool", body: object{"tool": nil}, status: badRequest, code: invalid, text: "tool"},
			{why: "a blank tool", body: object{"tool": " "}, status: badRequest, code: invalid, text: "tool: must not be blank"},
			{why: "no requester", body: object{"requested_by": nil}, status: badRequest, code: invalid, text: "requested_by"},
			{why: "a time of nothing", body: object{"ttl_seconds": 0}, status: badRequest, code: invalid, text: "ttl_seconds"},
			{why: "a time too long", body: object{"ttl_seconds": 604801}, status: badRequest, code: invalid, text: "ttl_seconds"},
			{why: "a zero byte", body: object{"description": "a\x00b"}, status: badRequest, code: invalid, text: "description: must not hold a zero byte"},
		},
		action: "approval.create", rows: 10,
	},
	{
		method: "ApprovalService.ListApprovals", given: withApproval, status: http.StatusOK, fields: []string{"approvals", "next_cursor"}, foreign: http.StatusOK,
		refusals: []refusal{badLimit, badCursor, {why: "a status that is none", query: "status=maybe", status: badRequest, code: invalid, text: "status"}},
	},
	{
		method: "ApprovalService.GetApproval", given: withApproval, status: http.StatusOK, fields: []string{"ref", "status"}, foreign: http.StatusNotFound,
		refusals: []refusal{noApproval},
	},
	{
		method: "ApprovalService.Approve", given: withApproval, status: http.StatusOK, foreign: http.StatusNotFound, body: func(*fixture) object { return object{"decided_by": "ada"} },
		fields: []string{"status", "decided_by", "decided_at"}, refusals: decisions, late: http.StatusConflict, action: "approval.approve", rows: 1,
	},
	{
		method: "ApprovalService.Deny", given: withApproval, status: http.StatusOK, foreign: http.StatusNotFound, body: func(*fixture) object { return object{"decided_by": "ada"} },
		fields: []string{"status", "decided_by", "decided_at"}, refusals: decisions, late: http.StatusConflict, action: "approval.deny", rows: 1,
	},
	{
		method: "ApprovalService.CreateDecisionToken", given: withApproval, status: http.StatusCreated, foreign: http.StatusNotFound,
		body:   func(*fixture) object { return object{"approver": "ada", "channel": "email"} },
		fields: []string{"token", "expires_at"},
		refusals: []refusal{
			noApproval,
			{why: "who asks", body: object{"approver": "Agent"}, status: http.StatusForbidden, code: "reviewer_not_independent", text: "another principal"},
			{why: "no approver", body: object{"approver": nil}, status: badRequest, code: invalid, text: "approver"},
			{why: "a channel that none is", body: object{"channel": "a b"}, status: badRequest, code: invalid, text: "channel"},
			{why: "decided", given: decided, status: http.StatusConflict, code: "approval_decided", text: "final"},
		},
		action: "approval.token", rows: 10,
	},
	{
		method: "ApprovalService.ListStandingApprovals", status: http.StatusOK, fields: []string{"standing_approvals", "next_cursor"}, foreign: http.StatusOK,
		refusals: []refusal{badLimit, badCursor},
	},
}

var trustControls = []control{
	{
		method: "TrustService.AssignTrust", status: http.StatusCreated,
		body:   func(*fixture) object { return object{"server_id": "files", "level": "VERIFIED", "assigned_by": "ada"} },
		fields: []string{"level", "effective_level", "review_status", "version"},
		refusals: []refusal{
			longReason,
			{why: "a level that is none", body: object{"level": "BEST"}, status: badRequest, code: invalid, text: "level"},
			{why: "no server", body: object{"server_id": nil}, status: badRequest, code: invalid, text: "server_id"},
			{why: "a server that none can be", body: object{"server_id": "a b"}, status: badRequest, code: invalid, text: "server_id"},
			{why: "a blank assigner", body: object{"assigned_by": " "}, status: badRequest, code: invalid, text: "assigned_by"},
		},
		action: "trust.assign", rows: 10,
	},
	{
		method: "TrustService.ListTrust", given: withAssignment, status: http.StatusOK, fields: []string{"records", "next_cursor"},
		refusals: []refusal{badLimit, badCursor, {why: "a status that is none", query: "review_status=maybe", status: badRequest, code: invalid, text: "review_status"}},
	},
	{
		method: "TrustService.ReviewTrust", given: withAssignment, status: http.StatusOK, body: func(*fixture) object { return object{"reviewed_by": "bob"} },
		fields: []string{"effective_level", "reviewed_by", "reviewed_at"},
		refusals: []refusal{
			longReason,
			{why: "nothing assigned", bare: true, status: http.StatusNotFound, code: "not_found", text: "trust record"},
			{why: "by the principal that assigned it", body: object{"reviewed_by": "ada"}, status: http.StatusForbidden, code: "reviewer_not_independent", text: "reviewed_by"},
			{why: "by no reviewer", body: object{"reviewed_by": nil}, status: badRequest, code: invalid, text: "reviewed_by"},
			{why: "a decision that is none", body: object{"decision": "maybe"}, status: badRequest, code: invalid, text: "decision"},
			{why: "of another version", body: object{"expected_version": 9}, status: http.StatusConflict, code: "version_conflict", text: "expected_version"},
			{why: "reviewed already", given: reviewed, status: http.StatusConflict, code: "conflict", text: "no review"},
		},
		late: http.StatusConflict, action: "trust.approve", rows: 1,
	},
	{
		method: "TrustService.ListTrustHistory", given: withAssignment, status: http.StatusOK, fields: []string{"records", "next_cursor"},
		refusals: []refusal{badLimit, badCursor},
	},
}

var securityControls = []control{
	{
		method: "SecurityService.GetBlastRadius", query: "provider=sandbox", status: http.StatusOK,
		fields: []string{"provider", "organizations", "services", "runs", "calls", "first_used_at", "last_used_at"},
		refusals: []refusal{
			badWindow,
			{why: "a limit out of its bounds", query: "limit=1001", status: badRequest, code: invalid, text: "limit"},
			{why: "a provider that none can be", query: "provider=a%20b", status: badRequest, code: invalid, text: "provider"},
			{why: "a time that is none", query: "since=yesterday", status: badRequest, code: invalid, text: "since"},
		},
	},
	{
		method: "SecurityService.ListAudit", given: withRun, status: http.StatusOK, fields: []string{"entries", "next_cursor"}, foreign: http.StatusOK,
		refusals: []refusal{badLimit, badCursor, badWindow, {why: "an action that is too long", query: "action=" + strings.Repeat("x", 65), status: badRequest, code: invalid, text: "action"}},
	},
}

// controls are the rows of all operations of tableServices.
var controls = slices.Concat(byokControls, organizationControls, runControls, approvalControls, trustControls, securityControls)
