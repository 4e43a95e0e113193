package control_test

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/decision"
)

// A person who has left the group of approvers neither sees nor decides anything with an earlier token, on the page or
// by a button.
func TestTokensEndWithMembership(t *testing.T) {
	x := newPage(t)
	form := x.open(t, annsToken, "approve", "")
	delete(x.members, "ann")
	for _, path := range []string{"/decisions/" + annsToken, "/decisions/of/apr_1/" + annsToken} {
		w := x.do(t, "GET", path, "")
		if w.Code != 403 || !strings.Contains(w.Body.String(), "no longer, in the group") || strings.Contains(w.Body.String(), "deploy") {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
		if w := x.do(t, "POST", path, form); w.Code != 403 || nonceOf.MatchString(w.Body.String()) {
			t.Errorf("POST %s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, choice := range []string{"approve", "deny"} {
		w := x.do(t, "POST", "/v1/decisions/"+annsToken, `{"decision":"`+choice+`","display_version":"v1"}`)
		if w.Code != 403 || !strings.Contains(w.Body.String(), "not_an_approver") {
			t.Errorf("the button %s: %d %s", choice, w.Code, w.Body)
		}
	}
	if len(x.gateway.choices) != 0 {
		t.Errorf("decided: %+v", x.gateway.choices)
	}
	x.members["ann"] = true
	if w := x.do(t, "POST", "/decisions/of/apr_1/"+annsToken, form); w.Code != 200 {
		t.Errorf("once ann is back: %d %s", w.Code, w.Body)
	}
}

// The page without a token shows nothing, runs only its own script and calls only its own origin.
func TestPageOfIdentifiedPeople(t *testing.T) {
	x := newPage(t)
	for _, ref := range []string{"apr_1", "apr_unknown", "%3Cscript%3E"} {
		w := x.do(t, "GET", "/decisions/of/"+ref+"/", "")
		policy := w.Header().Get("Content-Security-Policy")
		if w.Code != 200 || x.gateway.calls != 0 || strings.Contains(w.Body.String(), ref) || strings.Contains(w.Body.String(), "deploy") {
			t.Errorf("%s: %d, %d calls, %s", ref, w.Code, x.gateway.calls, w.Body)
		}
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "connect-src 'self'") || strings.Contains(policy, "unsafe") ||
			w.Header().Get("Referrer-Policy") != "no-referrer" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", w.Header())
		}
	}
	if w := x.do(t, "POST", "/decisions/of/apr_1/", `{"decision":"approve"}`); w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
}

// A call that the role serve relays counts for its user only if serve has verified the user's own token.
func TestDecideAsUser(t *testing.T) {
	const path, approve = "/v1/approvals/apr_1/decision", `{"decision":"approve","display_version":"v1","reason":"fine"}`
	for name, tt := range map[string]struct {
		headers []string
		method  string
		body    string
		status  int
		text    string
	}{
		"ann looks":          {[]string{"X-User-Id", "ann", "X-User-Verified", "true"}, "GET", "", 200, `"channel":"user_token"`},
		"ann decides":        {[]string{"X-User-Id", "ann", "X-User-Verified", "true"}, "POST", approve, 200, `"status":"approved"`},
		"as another":         {[]string{"X-User-Id", "ann", "X-User-Verified", "true"}, "POST", `{"decision":"deny","decided_by":"bob"}`, 400, "decided_by: is not a field"},
		"a claim of proof":   {[]string{"X-User-Id", "ann", "X-User-Verified", "true"}, "POST", `{"decision":"deny","proof":"link"}`, 400, "proof: is not a field"},
		"no decision":        {[]string{"X-User-Id", "ann", "X-User-Verified", "true"}, "POST", `{}`, 400, "decision: must be"},
		"bob":                {[]string{"X-User-Id", "bob", "X-User-Verified", "true"}, "POST", approve, 403, "not_an_approver"},
		"a key that names":   {[]string{"X-User-Id", "ann"}, "POST", approve, 403, "the user's own token"},
		"a key looks":        {[]string{"X-User-Id", "ann"}, "GET", "", 403, "the user's own token"},
		"a verified no one":  {[]string{"X-User-Verified", "true"}, "POST", approve, 403, "the user's own token"},
		"an owner looks":     {[]string{"X-Owner-Id", "ada", "X-User-Id", "ann", "X-User-Verified", "true"}, "GET", "", 403, "an owner's"},
		"an owner decides":   {[]string{"X-Owner-Id", "ada", "X-User-Id", "ann", "X-User-Verified", "true"}, "POST", approve, 403, "an owner's"},
		"no organization":    {[]string{"X-Organization-Id", "", "X-User-Id", "ann", "X-User-Verified", "true"}, "POST", approve, 403, "the user's own token"},
		"no token of serve":  {[]string{"Authorization", "", "X-User-Id", "ann", "X-User-Verified", "true"}, "POST", approve, 401, ""},
		"by another service": {[]string{"Authorization", "Bearer none", "X-User-Id", "ann", "X-User-Verified", "true"}, "POST", approve, 401, ""},
	} {
		x := newPage(t)
		w := x.do(t, tt.method, path, tt.body, append([]string{"Authorization", "Bearer svc", "X-Organization-Id", "acme"}, tt.headers...)...)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.text) {
			t.Errorf("%s: %d %s, want %d %s", name, w.Code, w.Body, tt.status, tt.text)
		}
		want := decision.Choice{Decision: "approve", Version: "v1", Reason: "fine", Proof: "page"}
		if decided := tt.method == http.MethodPost && tt.status == 200; len(x.gateway.choices) != map[bool]int{true: 1}[decided] || decided && x.gateway.choices[0] != want {
			t.Errorf("%s: decided %+v", name, x.gateway.choices)
		}
	}
}

// A session of the portal decides as its user, whatever its scopes. A session without a user, of an owner, or of a user
// who is not a member doesn't.
func TestPortalPersonsDecide(t *testing.T) {
	x := newPortal(t)
	const path = "/portal/api/product/v1/ai/approvals/apr_1/decision"
	for name, tt := range map[string]struct {
		owner, user string
		status      int
	}{
		"ann": {"", "ann", 200}, "bob": {"", "bob", 403}, "no one": {"", "", 403}, "ann in an owner's session": {"ada", "ann", 403},
	} {
		session := x.session(t, request("org-1", tt.owner, tt.user, `["webhooks:*"]`))
		decided := len(x.gateway.choices)
		for _, step := range []struct{ method, body string }{{"GET", ""}, {"POST", `{"decision":"deny"}`}} {
			if answer := x.do(t, step.method, path, step.body, append(append([]string{}, session...), "X-User-Id", "ann", "X-User-Verified", "true")...); answer.Status != tt.status {
				t.Errorf("%s, %s: %d, want %d", name, step.method, answer.Status, tt.status)
			}
		}
		if (len(x.gateway.choices) > decided) != (tt.status == 200) {
			t.Errorf("%s decided %+v", name, x.gateway.choices[decided:])
		}
	}
	ann := x.session(t, request("org-1", "", "ann", `["webhooks:*"]`))
	if answer := x.do(t, "POST", path, `{"decision":"approve"}`, append(append([]string{}, ann...), "Origin", "https://evil.example")...); answer.Status != 403 {
		t.Errorf("from another site: %d", answer.Status)
	}
	if answer := x.do(t, "POST", path, `{"decision":"approve"}`); answer.Status != 401 && answer.Status != 403 {
		t.Errorf("without a session: %d", answer.Status)
	}
}
