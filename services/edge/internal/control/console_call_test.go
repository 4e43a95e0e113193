package control_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/console"
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/platform/caller"
)

// An operator acts for the organization in the path, the owner and the user of the headers; the audit names the operator,
// and the organization's usage counts nothing.
func TestConsoleActsForOrganizations(t *testing.T) {
	x, _ := newConsole(t)
	own := append(x.signIn(t), caller.HeaderOwner, "ada", caller.HeaderUser, "ann", caller.HeaderOrganization, "another", "Authorization", "Bearer nothing")
	for path, want := range map[string]int{
		"GET /product/v1/webhooks/endpoints?owner_id=other&organization_id=other": 200,
		"POST /product/v1/webhooks/deliveries/d1/resend":                          200,
		"GET /product/v1/notifications/inbox?user_id=other":                       200,
		"PUT /product/v1/notifications/inbox/read-all":                            403,
		"POST /product/v1/ai/chat":                                                403,
		"POST /product/v1/notifications/send":                                     403,
	} {
		x.calls = nil
		method, path, _ := strings.Cut(path, " ")
		if answer := x.do(t, method, "/console/api/organizations/org%2F1"+path, "{}", own...); answer.Status != want {
			t.Errorf("%s %s: %d, want %d", method, path, answer.Status, want)
			continue
		}
		if want != 200 {
			continue
		}
		if len(x.calls) != 1 || x.calls[0].organization != "org/1" || x.calls[0].key != "console" || x.calls[0].owner != "ada" ||
			x.calls[0].user != "ann" || x.calls[0].verified || strings.Contains(x.calls[0].target, "other") {
			t.Errorf("%s %s: called as %+v", method, path, x.calls)
		}
	}
	for _, organization := range []string{"a%20b", "swy_live_" + strings.Repeat("aB3", 14)} {
		if answer := x.do(t, "GET", "/console/api/organizations/"+organization+"/product/v1/webhooks/endpoints", "", own...); answer.Status != 400 {
			t.Errorf("organization %.20s: %d, want 400", organization, answer.Status)
		}
	}
	if len(x.metrics) != 0 {
		t.Errorf("calls count as %v, want none", x.metrics)
	}
	entries, err := x.keys.Audit(t.Context(), apikey.AuditQuery{Organization: "org/1", Limit: 10})
	if err != nil || len(entries) != 4 { // the three that were refused as well
		t.Fatalf("audit %v, %v", entries, err)
	}
	resent := slices.ContainsFunc(entries, func(e apikey.Entry) bool {
		return e.Actor.Name == "olga" && e.Action == console.ActionCall && e.Details["id"] == "d1" &&
			e.Details["operation"] == "POST /product/v1/webhooks/deliveries/{id}/resend"
	})
	if !resent {
		t.Errorf("the audit lacks the resend by olga: %v", entries)
	}
}

// A decision on an approval is the signed-in operator's, whatever the page says, and for no user; so is the audit entry of
// a budget.
func TestConsoleDecidesAsOperator(t *testing.T) {
	x, _ := newConsole(t)
	own := append(x.signIn(t), caller.HeaderUser, "ann")
	const at = "/console/api/organizations/acme/product/v1/ai/approvals"
	for _, tt := range []struct {
		path, body string
		status     int
		sent       string
	}{
		{"/a1/approve", `{}`, 200, `{"decided_by":"olga","decided_via":"console","reason":""}`},
		{"/a1/approve", ``, 200, `{"decided_by":"olga","decided_via":"console","reason":""}`},
		{"/a1/deny", `{"reason":"too \"much\""}`, 200, `{"decided_by":"olga","decided_via":"console","reason":"too \"much\""}`},
		{"/a1/approve", `{"decided_by":"ada"}`, 400, ""},
		{"/a1/approve", `{"organization_id":"other"}`, 400, ""},
		{"/a1/deny", `{"reason":7}`, 400, ""},
		{"/a1/deny", `[]`, 400, ""},
		{"", `{"tool":"t","requested_by":"olga"}`, 403, ""}, // to ask is for those who execute
	} {
		x.calls = nil
		answer := x.do(t, "POST", at+tt.path, tt.body, own...)
		if answer.Status != tt.status {
			t.Errorf("%s %s: %d, want %d", tt.path, tt.body, answer.Status, tt.status)
		}
		if tt.sent == "" {
			if len(x.calls) != 0 {
				t.Errorf("%s %s: sent %+v", tt.path, tt.body, x.calls)
			}
			continue
		}
		if len(x.calls) != 1 || x.calls[0].body != tt.sent || x.calls[0].user != "" || x.calls[0].organization != "acme" {
			t.Errorf("%s %s: sent %+v, want %s", tt.path, tt.body, x.calls, tt.sent)
		}
	}
	if answer := x.do(t, "GET", at+"?status=pending", "", own...); answer.Status != 200 {
		t.Errorf("the approvals: %d", answer.Status)
	}
	x.calls = nil
	ended := x.do(t, "DELETE", strings.TrimSuffix(at, "approvals")+"standing-approvals/std_1?revoked_by=eve&reason=over", "", own...)
	if ended.Status != 200 || len(x.calls) != 1 || x.calls[0].user != "" || !strings.HasSuffix(x.calls[0].target, "/v1/approvals/standing/std_1?reason=over&revoked_by=olga") {
		t.Errorf("the end of a standing approval: %d, sent %+v", ended.Status, x.calls)
	}
	const budget = "/console/gateway/v1/admin/orgs/acme/budget"
	x.calls = nil
	if answer := x.do(t, "PUT", budget, `{"budget_ceiling_cents":100}`, own...); answer.Status != 200 || len(x.calls) != 1 {
		t.Errorf("the budget: %d, %d calls", answer.Status, len(x.calls))
	}
	for _, foreign := range []string{"a%20b", "swy_live_" + strings.Repeat("aB3", 14)} {
		if answer := x.do(t, "PUT", strings.Replace(budget, "acme", foreign, 1), `{}`, own...); answer.Status != 400 {
			t.Errorf("the budget of %.20s: %d, want 400", foreign, answer.Status)
		}
	}
	entries, err := x.keys.Audit(t.Context(), apikey.AuditQuery{Organization: "acme", Limit: 20})
	if err != nil || len(entries) == 0 || entries[0].Actor.Name != "olga" || entries[0].Details["operation"] != "PUT /v1/admin/orgs/{organization}/budget" {
		t.Errorf("audit %v, %v", entries, err)
	}
}

// The operators' operations have the same answers as with a token, under the operator's name.
func TestConsoleOperations(t *testing.T) {
	x, _ := newConsole(t)
	own := x.signIn(t)
	var key control.Key
	made := x.do(t, "POST", "/console/api/admin/v1/keys", `{"organization_id":"acme","product":"webhooks","permissions":["read"],"name":"n"}`, own...)
	if err := json.NewDecoder(made.Body).Decode(&key); err != nil || made.Status != 201 || key.Key == "" {
		t.Fatalf("create: %d, %v", made.Status, err)
	}
	for _, organization := range []string{"zeta", "beta", "bet%a", "Zeta"} {
		x.do(t, "POST", "/console/api/admin/v1/keys", `{"organization_id":"`+organization+`","product":"webhooks","permissions":["read"]}`, own...)
	}
	x.do(t, "PUT", "/console/api/admin/v1/plans/basic", `{"limits":[]}`, own...)
	x.do(t, "PUT", "/console/api/admin/v1/organizations/acme/plan", `{"plan":"basic"}`, own...)
	organizationsOf := func(query string) (names []string) {
		t.Helper()
		for next := ""; ; {
			var page struct {
				Organizations []struct {
					ID   string `json:"organization_id"`
					Plan string `json:"plan"`
				}
				NextCursor string `json:"next_cursor"`
			}
			if err := json.NewDecoder(x.do(t, "GET", "/console/api/organizations?limit=2"+query+"&cursor="+next, "", own...).Body).Decode(&page); err != nil {
				t.Fatal(err)
			}
			for _, o := range page.Organizations {
				names = append(names, o.ID+"="+o.Plan)
			}
			if next = page.NextCursor; next == "" {
				break
			}
		}
		return names
	}
	for query, want := range map[string][]string{
		"": {"Zeta=", "acme=basic", "bet%a=", "beta=", "zeta="}, "&prefix=be": {"bet%a=", "beta="}, "&prefix=bet%25": {"bet%a="}, "&prefix=beta": {"beta="}, "&prefix=eta": nil,
	} {
		if got := organizationsOf(query); !slices.Equal(got, want) {
			t.Errorf("organizations of %q: %v, want %v", query, got, want)
		}
	}
	if answer := x.do(t, "GET", "/console/api/organizations?prefix="+strings.Repeat("a", 257), "", own...); answer.Status != 400 {
		t.Errorf("a prefix of 257 characters: %d", answer.Status)
	}
	if answer := x.do(t, "DELETE", "/console/api/admin/v1/keys/"+key.ID, "", own...); answer.Status != 204 {
		t.Errorf("revoke: %d", answer.Status)
	}
	entries, err := x.keys.Audit(t.Context(), apikey.AuditQuery{Key: key.ID, Limit: 10})
	if err != nil || len(entries) != 2 || entries[0].Actor.Name != "olga" {
		t.Errorf("audit %v, %v", entries, err)
	}
}

// The services' lists are relayed in no organization's place, with the filters that they have and nothing else.
func TestConsoleReadsEveryOrganization(t *testing.T) {
	x, _ := newConsole(t)
	own := append(x.signIn(t), caller.HeaderOwner, "ada", caller.HeaderUser, "ann", caller.HeaderOrganization, "another")
	for path, want := range map[string]string{
		"/webhooks/circuits?all_organizations=true&state=open&state=half_open&secret=x": "http://webhook-egress/v1/circuits?all_organizations=true&state=open&state=half_open",
		"/webhooks/circuits?organization_id=acme&limit=7&cursor=c":                      "http://webhook-egress/v1/circuits?cursor=c&limit=7&organization_id=acme",
		"/notifications/sends?all_organizations=true&status=failed&channel=email&x=y":   "http://notify/v1/notifications/sends?all_organizations=true&channel=email&status=failed",
		"/notifications/sends?organization_id=acme&created_after=a&created_before=b":    "http://notify/v1/notifications/sends?created_after=a&created_before=b&organization_id=acme",
		"/notifications/registrations?all_organizations=true":                           "http://notify/v1/push/registrations?all_organizations=true",
	} {
		x.calls = nil
		if answer := x.do(t, "GET", "/console/api"+path, "", own...); answer.Status != 200 {
			t.Errorf("%s: %d, want 200", path, answer.Status)
		}
		if want := (relayed{key: "console", target: want}); len(x.calls) != 1 || x.calls[0] != want {
			t.Errorf("%s: called as %+v, want %+v", path, x.calls, want)
		}
	}
	if answer := x.do(t, "POST", "/console/api/notifications/sends", "{}", own...); answer.Status != 405 {
		t.Errorf("a send in no organization's place: %d, want 405", answer.Status)
	}
}
