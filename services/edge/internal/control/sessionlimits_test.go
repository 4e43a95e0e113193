package control_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/meter/metertest"
)

// A session and an operator see what an organization has used of its plan and has left of its credits.
func TestSessionLimits(t *testing.T) {
	x, _ := newConsole(t)
	operator := []string{"Authorization", "Bearer " + operatorToken}
	for _, step := range [][3]string{
		{"PUT", "/admin/v1/plans/starter", `{"prepaid":true,"limits":[
			{"meter":"calls","period":"month","amount":4,"kind":"metered","price_pico_usd":7},{"meter":"calls","period":"month","amount":9,"kind":"hard"}]}`},
		{"PUT", "/admin/v1/organizations/org-1/plan", `{"plan":"starter"}`},
		{"POST", "/admin/v1/organizations/org-1/credits", `{"amount_cents":500,"expires_at":"2099-01-01T00:00:00Z","idempotency_key":"k"}`},
	} {
		if a := x.do(t, step[0], step[1], step[2], operator...); a.Status >= 300 {
			t.Fatalf("%s: %d", step[1], a.Status)
		}
	}
	now := time.Now().UTC()
	count := meter.Count{Counter: meter.Counter{Organization: "org-1", Key: "key_1", Metric: "deliveries", Minute: now.Truncate(time.Minute)}, Count: 6}
	metertest.Add(t, x.usage, count)
	ends := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	want := `{"organization_id":"org-1","plan":"starter","prepaid":true,"limits":[` +
		`{"of":"organization","meter":"calls","period":"month","amount":9,"kind":"hard","used":6,"remaining":3,"resets_at":"` + ends + `"},` +
		`{"of":"organization","meter":"calls","period":"month","amount":4,"kind":"metered","price_pico_usd":7,"used":6,"remaining":0,"resets_at":"` + ends +
		`","overage":2,"overage_pico_usd":"14"}],"credits":{"balance_cents":500,"balance_pico_usd":"5000000000000","uncovered_pico_usd":"0"}}`
	const none = `{"organization_id":"org-2","plan":null,"prepaid":false,"limits":[],"credits":null}`
	const ofPortal, ofConsole = "/portal/api/product/v1/_meta/limits", "/console/api/organizations/org-1/product/v1/_meta/limits"
	signedIn := x.signIn(t)
	owner := x.session(t, request("org-1", "", "", `["ai:usage:read"]`)) // An owner's link from the previous release.
	if _, err := x.pool.Exec(t.Context(), `UPDATE portal_sessions SET owner_id = 'bob'`); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		path   string
		as     []string
		status int
		want   string
	}{
		"a session":                {ofPortal, x.session(t, request("org-1", "", "", `["ai:usage:read"]`)), 200, want},
		"another organization":     {ofPortal, x.session(t, request("org-2", "", "", `["ai:*"]`)), 200, none},
		"an owner":                 {ofPortal, owner, 403, ""},
		"without the scope":        {ofPortal, x.session(t, request("org-1", "", "ann", `["webhooks:*","notifications:*"]`)), 403, ""},
		"no session":               {ofPortal, nil, 401, ""},
		"an operator":              {ofConsole, signedIn, 200, want},
		"an operator, no plan":     {strings.Replace(ofConsole, "org-1", "org-2", 1), signedIn, 200, none},
		"an operator for an owner": {ofConsole, append(slices.Clip(signedIn), "X-Owner-Id", "bob"), 403, ""},
	} {
		answer := x.do(t, "GET", tt.path, "", tt.as...)
		if answer.Status != tt.status {
			t.Errorf("%s: %d, want %d", name, answer.Status, tt.status)
		}
		if tt.want == "" {
			continue
		}
		var got, wanted any
		if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := json.Unmarshal([]byte(tt.want), &wanted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A key's own plan counts for the key and its rotations alone.
func TestKeyLimits(t *testing.T) {
	x := newWorld(t)
	id, _ := x.key(t, "ai", apikey.Read)
	path := "/admin/v1/keys/" + id + "/limits"
	x.operate(t, "GET", path, "", http.StatusNotFound) // no plan
	x.operate(t, "GET", "/admin/v1/keys/key_nothing/limits", "", http.StatusNotFound)
	x.operate(t, "PUT", "/admin/v1/plans/mine", `{"limits":[{"meter":"calls","period":"day","amount":5,"kind":"hard"}]}`, http.StatusOK)
	x.operate(t, "PATCH", "/admin/v1/keys/"+id, `{"plan":"mine"}`, http.StatusOK)
	var next struct{ ID string }
	if err := json.Unmarshal([]byte(x.operate(t, "POST", "/admin/v1/keys/"+id+"/rotate", "", http.StatusCreated)), &next); err != nil {
		t.Fatal(err)
	}
	minute := time.Now().UTC().Truncate(time.Minute)
	for _, key := range []string{id, next.ID, "key_other"} {
		count := meter.Count{Counter: meter.Counter{Organization: "org-1", Key: key, Metric: "llm_requests", Minute: minute}, Count: 1}
		metertest.Add(t, x.usage, count)
	}
	for _, key := range []string{id, next.ID} {
		got := x.operate(t, "GET", "/admin/v1/keys/"+key+"/limits", "", http.StatusOK)
		if want := `"key_id":"` + key + `","plan":"mine","limits":[{"meter":"calls","period":"day","amount":5,"kind":"hard","used":2,`; !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	x.operate(t, "GET", path+"?at=yesterday", "", http.StatusBadRequest)
}
