//go:build e2e

package e2e_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// tableVendor is the vendor of the credentials in the table's rows.
var tableVendor = addVendor(vendor{name: "own-table", dialect: "openai", model: "own-table", keyless: true})

// tableServices are the services whose operations are in the table.
var tableServices = []string{"ByokService", "OrganizationService", "RunService", "SessionService", "ApprovalService", "TrustService", "SecurityService"}

// elsewhere are their operations that other tests have: the token is the credential of the first two and names the
// organization, and the others need the call of a tool; see TestToolApprovals.
var elsewhere = []string{
	"ApprovalService.GetDecision", "ApprovalService.Decide", "ApprovalService.CreateStandingApproval", "ApprovalService.RevokeStandingApproval",
}

const (
	badRequest = http.StatusBadRequest
	invalid    = "invalid_request"
)

// Preconditions of rows.

func withConfig(t *testing.T, f *fixture) {
	t.Helper()
	f.own.post(t, byokPath, object{"provider": tableVendor.name, "secret_ref": f.secretFor(t, "first.key"), "owner_principal": "ada"}).want(t, http.StatusCreated)
}

func withSecret(t *testing.T, f *fixture) {
	t.Helper()
	f.secretFor(t, "first.key")
}

func withTwoSecrets(t *testing.T, f *fixture) {
	t.Helper()
	withConfig(t, f)
	f.secretFor(t, "second.key")
}

func withRun(t *testing.T, f *fixture) {
	t.Helper()
	f.own.post(t, "/v1/runs/mint", object{"run_id": f.names["run_id"], "max_calls": 3}).want(t, http.StatusCreated)
}

func withEndedRun(t *testing.T, f *fixture) {
	t.Helper()
	for range 3 { // As many calls as the run may make.
		f.own.with("X-Run-Id", f.names["run_id"]).post(t, chatPath, ask("sandbox", "hello")).want(t, http.StatusOK)
	}
}

func withApproval(t *testing.T, f *fixture) {
	t.Helper()
	made := f.own.post(t, approvalsPath, object{"tool": "t", "requested_by": "agent"}).fields(t, http.StatusCreated, "ref")
	f.names["ref"], _ = made["ref"].(string)
}

func decided(t *testing.T, f *fixture) {
	t.Helper()
	f.own.post(t, approvalsPath+"/"+f.names["ref"]+"/deny", object{"decided_by": "eve"}).want(t, http.StatusOK)
}

func withAssignment(t *testing.T, f *fixture) {
	t.Helper()
	f.own.post(t, trustPath, object{"server_id": "files", "level": "VERIFIED", "assigned_by": "ada"}).want(t, http.StatusCreated)
}

func reviewed(t *testing.T, f *fixture) {
	t.Helper()
	f.own.post(t, trustPath+"/"+f.organization+"/files/review", object{"reviewed_by": "carol"}).want(t, http.StatusOK)
}

func suspendedOrg(t *testing.T, f *fixture) {
	t.Helper()
	f.operator.post(t, "/v1/admin/orgs/"+f.organization+"/suspend", object{}).want(t, http.StatusOK)
}

func withAbort(t *testing.T, f *fixture) {
	t.Helper()
	f.operator.post(t, "/v1/admin/sessions/"+f.names["run_id"]+"/abort", object{"organization_id": f.organization}).want(t, http.StatusOK)
}

// Refusals that several rows share.

var (
	noConfig    = refusal{why: "no active configuration", bare: true, status: http.StatusNotFound, code: "not_found", text: "active configuration"}
	noRun       = refusal{why: "a run that was not minted", bare: true, status: http.StatusNotFound, code: "not_found", text: "run"}
	noApproval  = refusal{why: "a ref that does not exist", bare: true, status: http.StatusNotFound, code: "not_found", text: "approval"}
	longReason  = refusal{why: "a reason that is too long", body: object{"reason": strings.Repeat("x", 1025)}, status: badRequest, code: invalid, text: "reason"}
	badLimit    = refusal{why: "a limit out of its bounds", query: "limit=201", status: badRequest, code: invalid, text: "limit"}
	badCursor   = refusal{why: "a cursor that is none", query: "cursor=none", status: badRequest, code: invalid, text: "cursor"}
	badWindow   = refusal{why: "a window that ends before it begins", query: "since=2026-02-02T00:00:00Z&until=2026-02-01T00:00:00Z", status: badRequest, code: invalid, text: "until"}
	longOrg     = refusal{why: "an organization that none can be", names: map[string]string{"org_id": "a b"}, status: badRequest, code: invalid, text: "org_id"}
	credentials = []refusal{
		{why: "no credential", body: object{"secret_ref": nil}, status: badRequest, code: invalid, text: "exactly one of secret_ref and sealed"},
		{why: "two credentials", body: object{"sealed": object{"key_id": "k", "ciphertext": "AAAA"}}, status: badRequest, code: invalid, text: "exactly one of secret_ref and sealed"},
		{why: "a raw key", body: object{"secret_ref": "sk-proj-0123456789abcdefghijklmnop"}, status: badRequest, code: "raw_key_refused", text: "secret_ref"},
		{why: "a field for a raw key", body: object{"api_key": "sk-proj-0123456789abcdefghijklmnop"}, status: badRequest, code: "raw_key_refused", text: "api_key"},
		{why: "a name that leads nowhere", body: object{"secret_ref": "file:missing.key"}, status: badRequest, code: "secret_unresolved", text: "secret_ref: there is no such secret"},
		{why: "a name that leads outside", body: object{"secret_ref": "file:../other/openai.key"}, status: badRequest, code: "secret_unresolved", text: "secret_ref: want file:"},
		{why: "a ciphertext for an unknown key", body: object{"secret_ref": nil, "sealed": object{"key_id": "nobody", "ciphertext": "AAAA"}}, status: badRequest, code: "sealed_credential_invalid", text: "sealed"},
		{why: "an end in the past", body: object{"expires_at": later(-time.Hour)}, status: badRequest, code: invalid, text: "expires_at: must be in the future"},
		{why: "a rule of no days", body: object{"rotation_interval_days": 0}, status: badRequest, code: invalid, text: "rotation_interval_days"},
	}
	decisions = []refusal{
		noApproval,
		{why: "no decider", body: object{"decided_by": nil}, status: badRequest, code: invalid, text: "decided_by"},
		{why: "a blank decider", body: object{"decided_by": " "}, status: badRequest, code: invalid, text: "decided_by: must not be blank"},
		{why: "it is decided", given: decided, status: http.StatusConflict, code: "approval_decided", text: "a decision is final"},
		{why: "its time is over", given: expiredApproval, status: http.StatusConflict, code: "approval_expired", text: ""},
		longReason,
	}
)

// expiredApproval creates an approval and waits until it has expired.
func expiredApproval(t *testing.T, f *fixture) {
	t.Helper()
	made := f.own.post(t, approvalsPath, object{"tool": "t", "requested_by": "agent", "ttl_seconds": 1}).fields(t, http.StatusCreated, "ref")
	f.names["ref"], _ = made["ref"].(string)
	waitFor(t, waitTimeout, "the approval expires", func() error {
		if a := f.own.get(t, approvalsPath+"/"+f.names["ref"]); !strings.Contains(string(a.body), `"status":"expired"`) {
			return errors.New(string(a.body))
		}
		return nil
	})
}
