package control_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rulesOf calls the operation of customers, as the role serve relays it.
func (x *world) rulesOf(t *testing.T, method, organization, body string) *httptest.ResponseRecorder {
	t.Helper()
	return x.customerCall(t, method, "/v1/alerts/rules", organization, body)
}

// customerCall makes a call of an organization's key, as the role serve relays it.
func (x *world) customerCall(t *testing.T, method, path, organization, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+serviceToken)
	r.Header.Set("X-Organization-Id", organization)
	r.Header.Set("X-Key-Id", "key_1")
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	return w
}

func TestAlertRules(t *testing.T) {
	x := newWorld(t)
	const path = "/admin/v1/alerts/rules/acme"
	const rules = `[{"name":"spend","types":["switchyard.budget.*"],"where":{"percent":80},"to":[{"channel":"in_app","user_id":"ada"}],"repeat_after":"1h"}]`
	const none = `{"organization_id":"acme","rules":[]}` + "\n"
	want := `{"organization_id":"acme","rules":` + rules + "}\n"
	for _, step := range []struct {
		what, got, want string
	}{
		{"at first", x.do(t, "GET", path, operatorToken, "").Body.String(), none},
		{"set by an operator", x.do(t, "PUT", path, operatorToken, `{"rules":`+rules+`}`).Body.String(), want},
		{"read by the customer", x.rulesOf(t, "GET", "acme", "").Body.String(), want},
		{"read by another customer", x.rulesOf(t, "GET", "other", "").Body.String(), strings.Replace(none, "acme", "other", 1)},
		{"removed by an operator", x.do(t, "DELETE", path, operatorToken, "").Body.String(), ""},
		{"set by the customer", x.rulesOf(t, "PUT", "acme", `{"rules":`+rules+`}`).Body.String(), want},
		{"set as they were read", x.rulesOf(t, "PUT", "acme", strings.TrimSuffix(want, "\n")).Body.String(), want},
		{"emptied by the customer", x.rulesOf(t, "PUT", "acme", `{"rules":[]}`).Body.String(), none},
	} {
		if step.got != step.want {
			t.Errorf("%s: %s, want %s", step.what, step.got, step.want)
		}
	}
}

// Each change of rules is in the audit, with the operator or the key that made it.
func TestAlertRulesAudited(t *testing.T) {
	x := newWorld(t)
	const path, rules = "/admin/v1/alerts/rules/acme", `{"rules":[{"name":"spend","types":["switchyard.*"],"to":[{"channel":"in_app"}]}]}`
	x.do(t, "PUT", path, operatorToken, rules)
	x.rulesOf(t, "PUT", "acme", `{"rules":[]}`)
	x.rulesOf(t, "PUT", "acme", `{"rules":[{}]}`) // refused
	x.do(t, "DELETE", path, operatorToken, "")
	x.do(t, "DELETE", path, operatorToken, "") // nothing is left
	var audit struct {
		Entries []struct {
			Actor, Action string
			Key           string `json:"key_id"`
			Details       struct{ Rules []string }
		}
	}
	text := x.operate(t, "GET", "/admin/v1/audit?organization_id=acme", "", 200)
	if err := json.Unmarshal([]byte(text), &audit); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range audit.Entries {
		got = append(got, fmt.Sprint(e.Actor, " ", e.Action, " ", e.Key, " ", e.Details.Rules))
	}
	want := []string{
		"operator organization.remove_alert_rules  []", "key_1 organization.alert_rules key_1 []", "operator organization.alert_rules  [spend]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("audit, newest first (-want +got):\n%s", diff)
	}
}

func TestAlertRulesRefused(t *testing.T) {
	x := newWorld(t)
	for name, tt := range map[string]struct {
		body, text string
	}{
		"no rules":         {`{}`, "rules: is required"},
		"no list":          {`{"rules":{}}`, "rules: has the wrong type"},
		"an unknown field": {`{"rules":[{"name":"a","tyeps":[]}]}`, "rules[0].tyeps: is not a field"},
		"no target":        {`{"rules":[{"name":"a","types":["switchyard.*"],"to":[]}]}`, "rules[0].to: must be 1 to 10 targets"},
		"a Slack secret":   {`{"rules":[{"name":"a","types":["switchyard.*"],"to":[{"channel":"slack","webhook_url":"https://hooks.slack.com/canary"}]}]}`, "rules[0].to[0].webhook_url: is not a field"},
	} {
		w := x.rulesOf(t, "PUT", "acme", tt.body)
		if w.Code != 400 || !strings.Contains(w.Body.String(), tt.text) || strings.Contains(w.Body.String(), "canary") {
			t.Errorf("%s: %d %s, want 400 %s", name, w.Code, w.Body, tt.text)
		}
	}
	if w := x.rulesOf(t, "PUT", "acme", `{"organization_id":"other","rules":[]}`); w.Code != 403 {
		t.Errorf("another organization: %d %s, want 403", w.Code, w.Body)
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"no organization":       x.rulesOf(t, "GET", "", ""),
		"an organization's key": x.rulesOf(t, "GET", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", ""),
	} {
		if w.Code != 400 || !strings.Contains(w.Body.String(), "X-Organization-Id: ") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := x.do(t, "GET", "/admin/v1/alerts/rules/acme", serviceToken, ""); w.Code != 403 {
		t.Errorf("a service reads as an operator: %d", w.Code)
	}
}
