package control_test

import (
	"io"
	"strings"
	"testing"
)

// A session decides in the name of the user whom its link named, whatever the page says; without a user, or the scope itself,
// it only reads.
func TestPortalDecidesAsItsUser(t *testing.T) {
	x := newPortal(t)
	const at = "/portal/api/product/v1/ai"
	ann := x.session(t, request("org-1", "", "ann", `["ai:approvals:read","ai:approvals:decide"]`))
	reader := x.session(t, request("org-1", "", "ann", `["ai:*"]`))
	noOne := x.session(t, request("org-1", "", "", `["ai:approvals:read","ai:approvals:decide"]`))
	for name, step := range map[string]struct {
		method, path, body string
		as                 []string
		status             int
		text, sent, target string // text is in the answer, sent and target are of the call of the service
	}{
		"approve":            {"POST", "/approvals/a1/approve", `{}`, ann, 200, "", `{"decided_by":"ann","decided_via":"portal","reason":""}`, "/v1/approvals/a1/approve"},
		"without a body":     {"POST", "/approvals/a1/approve", ``, ann, 200, "", `{"decided_by":"ann","decided_via":"portal","reason":""}`, "/v1/approvals/a1/approve"},
		"deny":               {"POST", "/approvals/a1/deny", `{"reason":"no"}`, ann, 200, "", `{"decided_by":"ann","decided_via":"portal","reason":"no"}`, "/v1/approvals/a1/deny"},
		"end":                {"DELETE", "/standing-approvals/std_1?revoked_by=eve&reason=over", "", ann, 200, "", "", "/v1/approvals/standing/std_1?reason=over&revoked_by=ann"},
		"read":               {"GET", "/standing-approvals?limit=5&revoked_by=eve", "", ann, 200, "", "", "/v1/approvals/standing?limit=5"},
		"as another":         {"POST", "/approvals/a1/approve", `{"decided_by":"eve"}`, ann, 400, "decided_by: is not a field", "", ""},
		"for another":        {"POST", "/approvals/a1/deny", `{"organization_id":"org-2"}`, ann, 400, "organization_id", "", ""},
		"by a reader":        {"POST", "/approvals/a1/approve", `{}`, reader, 403, "ai:approvals:decide", "", ""},
		"ended by a reader":  {"DELETE", "/standing-approvals/std_1", "", reader, 403, "ai:approvals:decide", "", ""},
		"by no one":          {"POST", "/approvals/a1/approve", `{}`, noOne, 403, "names no user", "", ""},
		"ended by no one":    {"DELETE", "/standing-approvals/std_1?revoked_by=eve", "", noOne, 403, "names no user", "", ""},
		"read by no one":     {"GET", "/approvals?status=pending", "", noOne, 200, "", "", "/v1/approvals?status=pending"},
		"without a session":  {"GET", "/standing-approvals", "", nil, 401, "", "", ""},
		"from another place": {"POST", "/approvals/a1/approve", `{}`, append(append([]string{}, ann...), "Origin", "https://evil.example"), 403, "", "", ""},
	} {
		x.calls = nil
		answer := x.do(t, step.method, at+step.path, step.body, append(append([]string{}, step.as...), "X-User-Id", "eve")...)
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.Status != step.status || !strings.Contains(string(text), step.text) {
			t.Errorf("%s: %d %s, %v, want %d %s", name, answer.Status, text, err, step.status, step.text)
		}
		if step.target == "" {
			if len(x.calls) != 0 {
				t.Errorf("%s: sent %+v", name, x.calls)
			}
			continue
		}
		if len(x.calls) != 1 || x.calls[0].body != step.sent || x.calls[0].target != "http://gateway"+step.target || x.calls[0].user == "eve" || x.calls[0].organization != "org-1" {
			t.Errorf("%s: sent %+v, want %s %s", name, x.calls, step.target, step.sent)
		}
	}
}
