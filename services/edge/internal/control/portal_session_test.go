package control_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/caller"
)

// A link opens one session, also when several browsers use it at once; its cookie is for the portal's pages only.
func TestPortalLinkOpensOnce(t *testing.T) {
	x := newPortal(t)
	path := x.link(t, request("org-1", "", "", `["webhooks:endpoints:read"]`))
	if answer := x.do(t, "HEAD", path, ""); answer.Status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: %d, want 405", answer.Status)
	}
	answers := make(chan portalAnswer, 8)
	for range cap(answers) {
		go func() { answers <- x.do(t, "GET", path, "") }()
	}
	opened := 0
	for range cap(answers) {
		answer := <-answers
		switch answer.Status {
		case http.StatusGone:
		case http.StatusSeeOther:
			opened++
			cookie := answer.Cookies[0]
			if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/portal" || cookie.MaxAge <= 0 || cookie.MaxAge > 3600 {
				t.Errorf("cookie %+v", cookie)
			}
			if answer.Header.Get("Location") != "/portal/" || answer.Header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("headers %v", answer.Header)
			}
		default:
			t.Errorf("open: %d", answer.Status)
		}
	}
	if opened != 1 {
		t.Errorf("the link opened %d sessions, want 1", opened)
	}
	for _, forged := range []string{"x", strings.Repeat("A", 43), strings.Repeat("A", 4000)} {
		answer := x.do(t, "GET", "/portal/open/"+forged, "")
		if answer.Status != http.StatusGone || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") || len(answer.Cookies) != 0 {
			t.Errorf("a forged link of %d bytes: %d %v", len(forged), answer.Status, answer.Header)
		}
	}
}

// Each link has an entry in the audit, which says whose session it opens, and doesn't have the link.
func TestPortalLinksAreAudited(t *testing.T) {
	x := newPortal(t)
	for name, tt := range map[string]struct {
		owner, user, scopes string
		want                map[string]any
	}{
		"the organization": {"", "", `["ai:usage:read","webhooks:*"]`, map[string]any{"scopes": []any{"ai:usage:read", "webhooks:*"}}},
		"a person": {"ada", "ann", `["notifications:inbox:read"]`, map[string]any{
			"owner_id": "ada", "user_id": "ann", "scopes": []any{"notifications:inbox:read"},
		}},
	} {
		link := x.link(t, request("org-1", tt.owner, tt.user, tt.scopes))
		text, err := io.ReadAll(x.do(t, "GET", "/admin/v1/audit?limit=1&organization_id=org-1", "", "Authorization", "Bearer "+operatorToken).Body)
		if err != nil || strings.Contains(string(text), strings.TrimPrefix(link, "/portal/open/")) {
			t.Fatalf("%s: the audit is %s, %v", name, text, err)
		}
		var audit struct {
			Entries []struct {
				Actor, Action string
				Details       map[string]any
			}
		}
		if err := json.Unmarshal(text, &audit); err != nil || len(audit.Entries) != 1 {
			t.Fatalf("%s: the audit is %s, %v", name, text, err)
		}
		e := audit.Entries[0]
		session, _ := e.Details["session"].(string)
		tt.want["session"] = session
		if diff := cmp.Diff(tt.want, e.Details); diff != "" || e.Actor != "operator" || e.Action != "portal.link" || !strings.HasPrefix(session, "portal_") {
			t.Errorf("%s: %+v (-want +got):\n%s", name, e, diff)
		}
	}
}

func TestPortalLinkIsChecked(t *testing.T) {
	x := newPortal(t)
	for body, want := range map[string]string{
		`{}`: "organization_id",
		`{"organization_id":"o","scopes":[],"return_url":"https://a.example"}`:                                             "scopes",
		`{"organization_id":"o","scopes":["read"],"return_url":"https://a.example"}`:                                       "scopes",
		`{"organization_id":"o","scopes":["webhooks:nothing:read"],"return_url":"https://a.example"}`:                      "scopes",
		`{"organization_id":"o","scopes":["notifications:inbox:read"],"return_url":"https://a.example"}`:                   "user_id",
		`{"organization_id":"o","owner_id":"b","scopes":["keys:write"],"return_url":"https://a.example"}`:                  "scopes",
		`{"organization_id":"o","owner_id":"b","scopes":["alerts:rules:read"],"return_url":"https://a.example"}`:           "scopes",
		`{"organization_id":"o","owner_id":"b","scopes":["alerts:*"],"return_url":"https://a.example"}`:                    "scopes",
		`{"organization_id":"o o","scopes":["webhooks:*"],"return_url":"https://a.example"}`:                               "organization_id",
		`{"organization_id":"o","scopes":["webhooks:*"],"return_url":"http://a.example"}`:                                  "return_url",
		`{"organization_id":"o","scopes":["webhooks:*"],"return_url":"javascript:alert(1)"}`:                               "return_url",
		`{"organization_id":"o","scopes":["webhooks:*"],"return_url":"https://a:b@a.example"}`:                             "return_url",
		`{"organization_id":"o","scopes":["webhooks:*"]}`:                                                                  "return_url",
		`{"organization_id":"o","scopes":["webhooks:*"],"return_url":"https://` + strings.Repeat("a", 2048) + `.example"}`: "return_url",
	} {
		answer := x.do(t, "POST", "/admin/v1/portal/sessions", body, "Authorization", "Bearer "+operatorToken)
		var refused struct{ Reason string }
		if err := json.NewDecoder(answer.Body).Decode(&refused); err != nil || answer.Status != http.StatusBadRequest || !strings.HasPrefix(refused.Reason, want) {
			t.Errorf("%.120s: %d %q (%v), want 400 that names %s", body, answer.Status, refused.Reason, err, want)
		}
	}
	if answer := x.do(t, "POST", "/admin/v1/portal/sessions", request("o", "", "", allScopes)); answer.Status != http.StatusUnauthorized {
		t.Errorf("without a token: %d, want 401", answer.Status)
	}
}

// ownerOf returns the owner of a session that may call a route: none if the route reaches the whole organization.
func ownerOf(r route.Route) string {
	if r.ScopedBy == route.ScopedByOrganization {
		return ""
	}
	return "ada"
}

// Each customers' route without a dialect opens to its scope alone, and is called as the session's organization, owner and
// user, whatever the request says. An owner's session names no run.
func TestPortalScopes(t *testing.T) {
	x := newPortal(t)
	for _, r := range x.table.Routes {
		if x.table.Dialect(r.Path) != "" || r.WebSocket {
			continue
		}
		path, body, owner := "/portal/api"+r.Filled("one")+"?owner_id=other&user_id=other", r.Example, ownerOf(r)
		if r.Scope == "ai:approvals:decide" {
			body = "{}" // A page doesn't say who decides, see TestPortalDecidesAsItsUser.
		}
		if r.Upstream == "control" && (ofOrganizations(r.Scope) || r.Scope == apikey.DecideOwn) {
			continue // See TestPortalAlertRules, TestPortalApprovers and TestPortalPersonsDecide.
		}
		if r.Upstream == "control" { // Only a key mints.
			headers := x.session(t, request("org-1", owner, "ann", `["`+string(r.Scope)+`"]`))
			if answer := x.do(t, r.Method, path, body, headers...); answer.Status != http.StatusNotFound || len(x.calls) > 0 {
				t.Errorf("%s %s: %d and %d calls, want 404 and none", r.Method, r.Path, answer.Status, len(x.calls))
			}
			continue
		}
		var others []string
		for _, scope := range apikey.Scopes() {
			if scope != r.Scope && (owner == "" || !wholeOrganization(x.table, scope)) {
				others = append(others, string(scope))
			}
		}
		without, err := json.Marshal(others)
		if err != nil {
			t.Fatal(err)
		}
		headers := append(x.session(t, request("org-1", owner, "ann", string(without))), caller.HeaderOwner, "other", caller.HeaderUser, "other", caller.HeaderUserVerified, "true")
		if answer := x.do(t, r.Method, path, body, headers...); answer.Status != http.StatusForbidden {
			t.Errorf("%s %s with all scopes but %s: %d, want 403", r.Method, r.Path, r.Scope, answer.Status)
		}
		if len(x.calls) > 0 {
			t.Fatalf("%s %s was relayed without its scope", r.Method, r.Path)
		}
		headers = append(x.session(t, request("org-1", owner, "ann", `["`+string(r.Scope)+`"]`)), caller.HeaderOwner, "other", caller.HeaderUser, "other", caller.HeaderRun, "run-1")
		if answer := x.do(t, r.Method, path, body, headers...); answer.Status != http.StatusOK || len(x.calls) != 1 {
			t.Fatalf("%s %s with %s: %d and %d calls, want 200 and 1", r.Method, r.Path, r.Scope, answer.Status, len(x.calls))
		}
		call := x.calls[0]
		x.calls = nil
		if call.organization != "org-1" || call.key != "portal" || call.owner != owner || call.user != "ann" || call.verified != (owner == "") || call.ownerSession != (owner != "") || (call.run == "") != (owner != "") {
			t.Errorf("%s %s: called as %+v", r.Method, r.Path, call)
		}
		if r.Upstream != "gateway" && strings.Contains(call.target, "other") {
			t.Errorf("%s %s: the call goes to %s, which names another", r.Method, r.Path, call.target)
		}
	}
	if !slices.Contains(x.metrics, "deliveries") {
		t.Errorf("calls count as %v, want deliveries too", x.metrics)
	}
}

// Requests that a page of the portal did not make, and those without a session, are refused before anything is done.
func TestPortalRefusesOtherSites(t *testing.T) {
	x := newPortal(t)
	own := x.session(t, request("org-1", "", "ann", allScopes))
	const path, body = "/portal/api/product/v1/webhooks/endpoints", `{"url":"https://example.com","event_types":["*"]}`
	change := func(name, value string) []string {
		headers := append([]string(nil), own...)
		for i := 0; i < len(headers); i += 2 {
			if headers[i] == name {
				headers[i+1] = value
			}
		}
		return headers
	}
	for name, test := range map[string]struct {
		headers []string
		want    int
	}{
		"the page":             {own, 200},
		"no header":            {change("X-Switchyard-Portal", ""), 403},
		"another origin":       {change("Origin", "https://evil.example"), 403},
		"no origin":            {change("Origin", ""), 403},
		"the origin over http": {change("Origin", "http://api.example.com"), 403},
		"a sibling's page":     {change("Sec-Fetch-Site", "same-site"), 403},
		"no cookie":            {change("Cookie", ""), 401},
		"a forged cookie":      {change("Cookie", "switchyard_portal="+strings.Repeat("A", 43)), 401},
	} {
		if answer := x.do(t, "POST", path, body, test.headers...); answer.Status != test.want {
			t.Errorf("%s: %d, want %d", name, answer.Status, test.want)
		}
	}
	if len(x.calls) != 1 {
		t.Errorf("%d calls, want that of the page", len(x.calls))
	}
	if answer := x.do(t, "GET", path, "", change("Sec-Fetch-Site", "cross-site")...); answer.Status != 403 {
		t.Errorf("a read from another site: %d, want 403", answer.Status)
	}
	if answer := x.do(t, "DELETE", "/portal/api/session", "", own...); answer.Status != 204 || answer.Cookies[0].MaxAge >= 0 {
		t.Errorf("sign out: %d %v", answer.Status, answer.Cookies)
	}
	if answer := x.do(t, "GET", "/portal/api/session", "", own...); answer.Status != 401 {
		t.Errorf("after the end: %d, want 401", answer.Status)
	}
}

// wholeOrganization reports whether a scope opens a route that reaches the whole organization.
func wholeOrganization(table route.Table, scope apikey.Permission) bool {
	return slices.ContainsFunc(table.Routes, func(r route.Route) bool { return r.Scope == scope && r.ScopedBy == route.ScopedByOrganization })
}

// A session for an owner reaches only that owner's records. No link for an owner has a scope that reaches the whole
// organization, and an older session can't use such a scope. The table of routes says which scopes these are.
func TestOwnersSessionsReachNoOrganization(t *testing.T) {
	x := newPortal(t)
	link := func(scopes ...string) (status int, reason string) {
		t.Helper()
		text, err := json.Marshal(scopes)
		if err != nil {
			t.Fatal(err)
		}
		answer := x.do(t, "POST", "/admin/v1/portal/sessions", request("org-1", "ada", "ann", string(text)), "Authorization", "Bearer "+operatorToken)
		var refused struct{ Reason string }
		_ = json.NewDecoder(answer.Body).Decode(&refused)
		return answer.Status, refused.Reason
	}
	for _, scope := range append(apikey.Scopes(), "ai:*", "alerts:*", "notifications:*", "webhooks:*", "keys:read", "keys:write") {
		area, all := strings.CutSuffix(string(scope), "*")
		whole := strings.HasPrefix(string(scope), "keys:") || slices.ContainsFunc(x.table.Routes, func(r route.Route) bool {
			return (r.Scope == scope || all && strings.HasPrefix(string(r.Scope), area) && !r.Scope.Explicit()) && r.ScopedBy == route.ScopedByOrganization
		})
		status, reason := link("webhooks:endpoints:read", string(scope))
		if want := map[bool]int{true: 400, false: 201}[whole]; status != want || whole && !strings.Contains(reason, string(scope)) {
			t.Errorf("%s beside an owner: %d %q, want %d", scope, status, reason, want)
		}
	}
	if status, reason := link("ai:usage:read", "webhooks:*", "ai:runs:write"); status != 400 || !strings.Contains(reason, "ai:runs:write, ai:usage:read") || strings.Contains(reason, "webhooks") {
		t.Errorf("%d %q, want the two scopes", status, reason)
	}
	if status, reason := link("ai:tools:invoke"); status != 400 || !strings.Contains(reason, "ai:tools:invoke") { // The gateway knows no owners of tools.
		t.Errorf("tools beside an owner: %d %q", status, reason)
	}
	for _, r := range x.table.Routes {
		if x.table.Dialect(r.Path) != "" || r.WebSocket || r.Upstream == "control" || r.ScopedBy != route.ScopedByOrganization {
			continue
		}
		headers := x.session(t, request("org-1", "", "ann", `["`+string(r.Scope)+`"]`))
		if _, err := x.pool.Exec(t.Context(), `UPDATE portal_sessions SET owner_id = 'ada'`); err != nil {
			t.Fatal(err)
		}
		body := r.Example
		if r.Scope == "ai:approvals:decide" {
			body = "{}"
		}
		if answer := x.do(t, r.Method, "/portal/api"+r.Filled("one"), body, headers...); answer.Status != http.StatusForbidden || len(x.calls) > 0 {
			t.Errorf("%s %s for an owner: %d and %d calls, want 403 and none", r.Method, r.Path, answer.Status, len(x.calls))
		}
	}
}

// ofOrganizations reports whether a scope is of what belongs to the whole organization, which sessions of owners don't have.
func ofOrganizations(scope apikey.Permission) bool {
	return strings.HasPrefix(string(scope), "alerts:") || strings.HasPrefix(string(scope), "ai:approvers:")
}
