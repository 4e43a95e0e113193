//go:build e2e

package e2e_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// ownScene is the vendor of the table's credentials.
var ownScene = addVendor(vendor{name: "own-scene", dialect: "openai", model: "own-scene", keyless: true})

// controlServices are those of the table.
var controlServices = []string{"ByokService", "OrganizationService", "RunService", "ApprovalService", "TrustService", "SecurityService"}

const (
	badRequest = http.StatusBadRequest
	invalid    = "invalid_request"
)

// What rows need.

func withConfig(t *testing.T, s *scene) {
	t.Helper()
	s.own.post(t, byokPath, object{"provider": ownScene.name, "secret_ref": s.secretFor(t, "first.key"), "owner_principal": "ada"}).want(t, http.StatusCreated)
}

func withSecret(t *testing.T, s *scene) {
	t.Helper()
	s.secretFor(t, "first.key")
}

func withTwoSecrets(t *testing.T, s *scene) {
	t.Helper()
	withConfig(t, s)
	s.secretFor(t, "second.key")
}

func withRun(t *testing.T, s *scene) {
	t.Helper()
	s.own.post(t, "/v1/runs/mint", object{"run_id": s.names["run_id"], "max_calls": 3}).want(t, http.StatusCreated)
}

func withEndedRun(t *testing.T, s *scene) {
	t.Helper()
	for range 3 { // As many as it may.
		s.own.with("X-Run-Id", s.names["run_id"]).post(t, chatPath, ask("sandbox", "hello")).want(t, http.StatusOK)
	}
}

func withApproval(t *testing.T, s *scene) {
	t.Helper()
	made := s.own.post(t, approvalsPath, object{"tool": "t", "requested_by": "agent"}).fields(t, http.StatusCreated, "ref")
	s.names["ref"], _ = made["ref"].(string)
}

func decided(t *testing.T, s *scene) {
	t.Helper()
	s.own.post(t, approvalsPath+"/"+s.names["ref"]+"/deny", object{"decided_by": "eve"}).want(t, http.StatusOK)
}

func withAssignment(t *testing.T, s *scene) {
	t.Helper()
	s.own.post(t, trustPath, object{"server_id": "files", "level": "VERIFIED", "assigned_by": "ada"}).want(t, http.StatusCreated)
}

func reviewed(t *testing.T, s *scene) {
	t.Helper()
	s.own.post(t, trustPath+"/"+s.organization+"/files/review", object{"reviewed_by": "carol"}).want(t, http.StatusOK)
}

func suspendedOrg(t *testing.T, s *scene) {
	t.Helper()
	s.operator.post(t, "/v1/admin/orgs/"+s.organization+"/suspend", object{}).want(t, http.StatusOK)
}

func withAbort(t *testing.T, s *scene) {
	t.Helper()
	s.operator.post(t, "/v1/admin/sessions/"+s.names["run_id"]+"/abort", object{"organization_id": s.organization}).want(t, http.StatusOK)
}

// Refusals that several rows have.

var (
	noConfig    = refusal{why: "no active configuration", bare: true, status: http.StatusNotFound, code: "not_found", text: "active configuration"}
	noRun       = refusal{why: "a run that nobody minted", bare: true, status: http.StatusNotFound, code: "not_found", text: "run"}
	noApproval  = refusal{why: "a ref that nobody made", bare: true, status: http.StatusNotFound, code: "not_found", text: "approval"}
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
		{why: "a ciphertext of nobody's", body: object{"secret_ref": nil, "sealed": object{"key_id": "nobody", "ciphertext": "AAAA"}}, status: badRequest, code: "sealed_credential_invalid", text: "sealed"},
		{why: "an end in the past", body: object{"expires_at": later(-time.Hour)}, status: badRequest, code: invalid, text: "expires_at: must be in the future"},
		{why: "a rule of no days", body: object{"rotation_interval_days": 0}, status: badRequest, code: invalid, text: "rotation_interval_days"},
	}
	decisions = []refusal{
		noApproval,
		{why: "nobody decides", body: object{"decided_by": nil}, status: badRequest, code: invalid, text: "decided_by"},
		{why: "a blank decides", body: object{"decided_by": " "}, status: badRequest, code: invalid, text: "decided_by: must not be blank"},
		{why: "it is decided", given: decided, status: http.StatusConflict, code: "approval_decided", text: "a decision is final"},
		{why: "its time is over", given: expiredApproval, status: http.StatusConflict, code: "approval_expired", text: ""},
		longReason,
	}
)

// expiredApproval waits for the end of one.
func expiredApproval(t *testing.T, s *scene) {
	t.Helper()
	made := s.own.post(t, approvalsPath, object{"tool": "t", "requested_by": "agent", "ttl_seconds": 1}).fields(t, http.StatusCreated, "ref")
	s.names["ref"], _ = made["ref"].(string)
	waitFor(t, patience, "the approval expires", func() error {
		if a := s.own.get(t, approvalsPath+"/"+s.names["ref"]); !strings.Contains(string(a.body), `"status":"expired"`) {
			return errors.New(string(a.body))
		}
		return nil
	})
}
