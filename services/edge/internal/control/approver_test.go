package control_test

import (
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// approversOf calls the operation of customers, as the role serve relays it.
func (x *world) approversOf(t *testing.T, method, organization, body string) *httptest.ResponseRecorder {
	t.Helper()
	return x.customerCall(t, method, "/v1/approvers", organization, body)
}

const someGroups = `[{"name":"default","members":[{"user_id":"ann","email":"ann@example.com","slack_user":{"team_id":"T01","user_id":"U01"}},{"user_id":"bob"}],` +
	`"steps":[{"after":"0s","channels":["in_app","email"]},{"after":"10m","channels":["slack"],"users":["bob"],"slack_channel":"C01"}]}]`

func TestApprovers(t *testing.T) {
	x := newWorld(t)
	const path = "/admin/v1/approvers/acme"
	const none = `{"organization_id":"acme","groups":[]}` + "\n"
	want := `{"organization_id":"acme","groups":` + someGroups + "}\n"
	for _, step := range []struct {
		what, got, want string
	}{
		{"at first", x.do(t, "GET", path, operatorToken, "").Body.String(), none},
		{"set by an operator", x.do(t, "PUT", path, operatorToken, `{"groups":`+someGroups+`}`).Body.String(), want},
		{"read by the customer", x.approversOf(t, "GET", "acme", "").Body.String(), want},
		{"read by another customer", x.approversOf(t, "GET", "other", "").Body.String(), strings.Replace(none, "acme", "other", 1)},
		{"emptied by the customer", x.approversOf(t, "PUT", "acme", `{"groups":[]}`).Body.String(), none},
		{"set as they were read", x.approversOf(t, "PUT", "acme", strings.TrimSuffix(want, "\n")).Body.String(), want},
	} {
		if step.got != step.want {
			t.Errorf("%s: %s, want %s", step.what, step.got, step.want)
		}
	}
	audit := x.operate(t, "GET", "/admin/v1/audit?organization_id=acme", "", 200)
	if strings.Count(audit, "organization.approvers") != 3 || !strings.Contains(audit, `"groups":["default"]`) || !strings.Contains(audit, `"actor":"key_1"`) {
		t.Errorf("audit %s", audit)
	}
}

func TestApproversRefused(t *testing.T) {
	x := newWorld(t)
	for name, tt := range map[string]struct {
		body, text string
	}{
		"no groups":         {`{}`, "groups: is required"},
		"no list":           {`{"groups":{}}`, "groups: has the wrong type"},
		"an unknown field":  {`{"groups":[{"name":"a","membres":[]}]}`, "groups[0].membres: is not a field"},
		"a number":          {`{"groups":[{"name":"a","members":[{"user_id":"ann","slack_user":{"team_id":1}}]}]}`, "groups[0].members[0].slack_user.team_id: has the wrong type"},
		"no member":         {`{"groups":[{"name":"a","members":[]}]}`, "groups[0].members: must be 1 to 20"},
		"a wrong recipient": {`{"groups":[{"name":"a","members":[{"user_id":"canary","email":"canary"}]}]}`, "groups[0].members[0].email: must be an address"},
	} {
		w := x.approversOf(t, "PUT", "acme", tt.body)
		if w.Code != 400 || !strings.Contains(w.Body.String(), tt.text) || strings.Contains(w.Body.String(), "canary") {
			t.Errorf("%s: %d %s, want 400 %s", name, w.Code, w.Body, tt.text)
		}
	}
	if w := x.approversOf(t, "PUT", "acme", `{"organization_id":"other","groups":[]}`); w.Code != 403 {
		t.Errorf("another organization: %d %s, want 403", w.Code, w.Body)
	}
	if w := x.do(t, "GET", "/admin/v1/approvers/acme", serviceToken, ""); w.Code != 403 {
		t.Errorf("a service reads as an operator: %d", w.Code)
	}
}

// A session needs the scope itself: the whole area doesn't grant who decides.
func TestPortalApprovers(t *testing.T) {
	x := newPortal(t)
	const path, body = "/portal/api/product/v1/ai/approvers", `{"groups":` + someGroups + `}`
	for name, tt := range map[string]struct {
		scopes, owner string
		status        int
	}{
		"its scope":    {`"ai:approvers:write"`, "", 200},
		"the area":     {`"ai:*"`, "", 403},
		"an owner's":   {`"webhooks:*"`, `"owner_id":"ada",`, 403},
		"another area": {`"webhooks:*"`, "", 403},
	} {
		page := x.session(t, `{"organization_id":"org-1",`+tt.owner+`"user_id":"ann","scopes":[`+tt.scopes+`],"return_url":"https://app.example"}`)
		answer := x.do(t, "PUT", path, body, page...)
		if text, err := io.ReadAll(answer.Body); err != nil || answer.Status != tt.status {
			t.Errorf("%s: %d %s, %v, want %d", name, answer.Status, text, err, tt.status)
		}
	}
	refused := x.do(t, "POST", "/admin/v1/portal/sessions", `{"organization_id":"o","owner_id":"ada","scopes":["ai:approvers:read"],"return_url":"https://app.example"}`,
		"Authorization", "Bearer "+operatorToken)
	if text, err := io.ReadAll(refused.Body); err != nil || refused.Status != 400 || !strings.Contains(string(text), "scopes: ") {
		t.Errorf("approvers of an owner: %d %s, %v", refused.Status, text, err)
	}
}

// An operator in an organization's place sets its groups, under the own name.
func TestConsoleApprovers(t *testing.T) {
	x, _ := newConsole(t)
	own := x.signIn(t)
	const path = "/console/api/organizations/org-1/product/v1/ai/approvers"
	for _, step := range []struct {
		method, body string
		headers      []string
		status       int
	}{
		{"PUT", `{"groups":` + someGroups + `}`, nil, 200},
		{"GET", "", []string{"X-User-Id", "ann"}, 200},
		{"GET", "", []string{"X-Owner-Id", "ada"}, 403},
	} {
		answer := x.do(t, step.method, path, step.body, append(slices.Clip(own), step.headers...)...)
		if text, err := io.ReadAll(answer.Body); err != nil || answer.Status != step.status {
			t.Errorf("%s %v: %d %s, %v, want %d", step.method, step.headers, answer.Status, text, err, step.status)
		}
	}
}
