package control_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A session reads and replaces the rules of its own organization, each with its scope; the audit has session and user.
func TestPortalAlertRules(t *testing.T) {
	x := newPortal(t)
	const path = "/portal/api/product/v1/alerts/rules"
	const rules = `"rules":[{"name":"budget","types":["switchyard.budget.*"],"to":[{"channel":"in_app"}]}]`
	both := x.session(t, request("org-1", "", "ann", `["alerts:*"]`))
	reader := x.session(t, request("org-1", "", "ann", `["alerts:rules:read"]`))
	writer := x.session(t, request("org-1", "", "ann", `["alerts:rules:write"]`))
	other := x.session(t, request("org-2", "", "", `["alerts:*"]`))
	none := x.session(t, request("org-1", "", "ann", `["webhooks:*","notifications:*","ai:*","keys:write"]`))
	for _, step := range []struct {
		name, method, body string
		as                 []string
		status             int
		want               string
	}{
		{"at first", "GET", "", reader, 200, `{"organization_id":"org-1","rules":[]}`},
		{"set", "PUT", "{" + rules + "}", both, 200, rules},
		{"read", "GET", "", reader, 200, rules},
		{"read by another organization", "GET", "", other, 200, `{"organization_id":"org-2","rules":[]}`},
		{"set by a reader", "PUT", `{"rules":[]}`, reader, 403, "alerts:rules:write"},
		{"read by a writer", "GET", "", writer, 403, "alerts:rules:read"},
		{"read without a scope", "GET", "", none, 403, "alerts:rules:read"},
		{"set for another organization", "PUT", `{"organization_id":"org-1","rules":[]}`, other, 403, ""},
		{"a wrong rule", "PUT", `{"rules":[{"name":"a","types":["order.paid"],"to":[{"channel":"in_app"}]}]}`, both, 400, "rules[0].types[0]: must be"},
		{"from another site", "PUT", `{"rules":[]}`, append(slices.Clip(both), "Origin", "https://evil.example"), 403, ""},
		{"without a session", "GET", "", nil, 401, ""},
		{"still as set", "GET", "", both, 200, rules},
		{"emptied by a writer", "PUT", `{"rules":[]}`, writer, 200, `"rules":[]`},
	} {
		answer := x.do(t, step.method, path, step.body, append(slices.Clip(step.as), "X-Organization-Id", "org-9", "X-Owner-Id", "other")...)
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.Status != step.status || !strings.Contains(string(text), step.want) {
			t.Errorf("%s: %d %s, %v, want %d %s", step.name, answer.Status, text, err, step.status, step.want)
		}
	}
	if len(x.calls) != 0 {
		t.Errorf("%d calls went to services", len(x.calls))
	}
	audit := x.do(t, "GET", "/admin/v1/audit?organization_id=org-1", "", "Authorization", "Bearer "+operatorToken)
	text, err := io.ReadAll(audit.Body)
	if err != nil || audit.Status != http.StatusOK || strings.Count(string(text), "organization.alert_rules") != 2 || !strings.Contains(string(text), " ann") {
		t.Errorf("audit: %d %s, %v", audit.Status, text, err)
	}
}

// An operator in an organization's place sets its rules, under the own name; not in the place of an owner.
func TestConsoleAlertRules(t *testing.T) {
	x, _ := newConsole(t)
	own := x.signIn(t)
	const path, rules = "/console/api/organizations/org-1/product/v1/alerts/rules", `"rules":[{"name":"a","types":["switchyard.*"],"to":[{"channel":"in_app"}]}]`
	for _, step := range []struct {
		method, body string
		headers      []string
		status       int
		want         string
	}{
		{"PUT", "{" + rules + "}", nil, 200, rules},
		{"GET", "", []string{"X-User-Id", "ann"}, 200, rules},
		{"GET", "", []string{"X-Owner-Id", "ada"}, 403, "an owner's"},
	} {
		answer := x.do(t, step.method, path, step.body, append(slices.Clip(own), step.headers...)...)
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.Status != step.status || !strings.Contains(string(text), step.want) {
			t.Errorf("%s %v: %d %s, %v, want %d %s", step.method, step.headers, answer.Status, text, err, step.status, step.want)
		}
	}
	audit := x.do(t, "GET", "/admin/v1/audit?organization_id=org-1", "", "Authorization", "Bearer "+operatorToken)
	text, err := io.ReadAll(audit.Body)
	if err != nil || !strings.Contains(string(text), `"organization.alert_rules"`) || !strings.Contains(string(text), `"actor":"olga"`) {
		t.Errorf("audit: %d %s, %v", audit.Status, text, err)
	}
}
