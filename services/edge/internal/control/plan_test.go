package control_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
)

// operate makes an operator's call that answers with a status.
func (x *world) operate(t *testing.T, method, path, body string, status int) string {
	t.Helper()
	w := x.do(t, method, path, operatorToken, body)
	if w.Code != status {
		t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, w.Code, w.Body, status)
	}
	if err := x.plans.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.Body.String()
}

var errBroken = apierr.New(apierr.KindUpstream, proxy.ReasonUpstreamUnavailable, "the service broke off the call")

func TestPlans(t *testing.T) {
	x := newWorld(t)
	const path = "/admin/v1/plans/starter"
	body := `{"description":"for a start","limits":[{"meter":"calls","period":"day","amount":3,"kind":"hard"}]}`
	set := x.operate(t, "PUT", path, body, http.StatusOK)
	if got := x.operate(t, "GET", path, "", http.StatusOK); got != set {
		t.Errorf("read %s, want %s", got, set)
	}
	if !strings.Contains(set, `"plan":"starter","description":"for a start","prepaid":false,"limits":[{"meter":"calls","period":"day","amount":3,"kind":"hard"}]`) {
		t.Errorf("plan %s", set)
	}
	x.operate(t, "PUT", "/admin/v1/plans/other", `{}`, http.StatusOK)
	first := x.operate(t, "GET", "/admin/v1/plans?limit=1", "", http.StatusOK)
	var page struct {
		Plans      []struct{ Plan string }
		NextCursor string `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(first), &page); err != nil || len(page.Plans) != 1 || page.Plans[0].Plan != "other" {
		t.Fatalf("first page %s, %v", first, err)
	}
	if second := x.operate(t, "GET", "/admin/v1/plans?limit=1&cursor="+page.NextCursor, "", http.StatusOK); !strings.Contains(second, `"plan":"starter"`) || !strings.Contains(second, `"next_cursor":""`) {
		t.Errorf("second page %s", second)
	}
	id, _ := x.key(t, "ai", apikey.Read)
	x.operate(t, "PATCH", "/admin/v1/keys/"+id, `{"plan":"starter"}`, http.StatusOK)
	x.operate(t, "PUT", "/admin/v1/organizations/org-1/plan", `{"plan":"starter"}`, http.StatusOK)
	if got := x.operate(t, "GET", "/admin/v1/organizations/org-1/plan", "", http.StatusOK); got != `{"organization_id":"org-1","plan":"starter"}`+"\n" {
		t.Errorf("plan of the organization: %s", got)
	}
	if got := x.operate(t, "DELETE", path, "", http.StatusConflict); !strings.Contains(got, "1 keys and 1 organizations are on the plan") {
		t.Errorf("refused with %s", got)
	}
	x.operate(t, "DELETE", "/admin/v1/organizations/org-1/plan", "", http.StatusNoContent)
	x.operate(t, "GET", "/admin/v1/organizations/org-1/plan", "", http.StatusNotFound)
	x.operate(t, "DELETE", "/admin/v1/keys/"+id, "", http.StatusNoContent) // A revoked key holds up nothing.
	x.operate(t, "DELETE", path, "", http.StatusNoContent)
	x.operate(t, "DELETE", path, "", http.StatusNotFound)
	x.operate(t, "GET", path, "", http.StatusNotFound)
	audit := x.operate(t, "GET", "/admin/v1/audit", "", http.StatusOK)
	for _, action := range []string{"plan.set", "plan.delete", "organization.plan", "organization.remove_plan"} {
		if !strings.Contains(audit, `"action":"`+action+`"`) {
			t.Errorf("the audit lacks %s: %s", action, audit)
		}
	}
}

func TestRefusedPlans(t *testing.T) {
	x := newWorld(t)
	id, _ := x.key(t, "ai", apikey.Read)
	const one = `{"meter":"calls","period":"day","amount":1,"kind":"hard"}`
	for name, tt := range map[string]struct {
		method, path, body, reason string
		status                     int
	}{
		"meter":            {"PUT", "/admin/v1/plans/p", `{"limits":[` + one + `,{"meter":"bytes"}]}`, "limits[1].meter: ", 400},
		"period":           {"PUT", "/admin/v1/plans/p", `{"limits":[{"meter":"calls","period":"year"}]}`, "limits[0].period: ", 400},
		"kind":             {"PUT", "/admin/v1/plans/p", `{"limits":[{"meter":"calls","period":"day"}]}`, "limits[0].kind: ", 400},
		"amount":           {"PUT", "/admin/v1/plans/p", `{"limits":[{"meter":"calls","period":"day","kind":"hard"}]}`, "limits[0].amount: ", 400},
		"huge amount":      {"PUT", "/admin/v1/plans/p", `{"limits":[{"meter":"calls","period":"day","kind":"hard","amount":1e99}]}`, "limits[0].amount: ", 400},
		"twice":            {"PUT", "/admin/v1/plans/p", `{"limits":[` + one + `,` + one + `]}`, "limits[1]: ", 400},
		"too many":         {"PUT", "/admin/v1/plans/p", `{"limits":[` + strings.Repeat(one+",", 20) + one + `]}`, "limits: ", 400},
		"description":      {"PUT", "/admin/v1/plans/p", `{"description":"` + strings.Repeat("x", 1001) + `"}`, "description: ", 400},
		"control":          {"PUT", "/admin/v1/plans/p", `{"description":"a\u0000b"}`, "description: ", 400},
		"name":             {"PUT", "/admin/v1/plans/" + strings.Repeat("p", 129), `{}`, "plan: ", 400},
		"price":            {"PUT", "/admin/v1/plans/p", `{"limits":[{"meter":"calls","period":"day","amount":1,"kind":"metered","price_pico_usd":1000000000000001}]}`, "limits[0].price_pico_usd: must be from", 400},
		"price of no kind": {"PUT", "/admin/v1/plans/p", `{"limits":[{"meter":"calls","period":"day","amount":1,"kind":"soft","price_pico_usd":1}]}`, "limits[0].price_pico_usd: is for metered", 400},
		"twice with price": {"PUT", "/admin/v1/plans/p", `{"limits":[{"meter":"calls","period":"day","amount":1,"kind":"metered","price_pico_usd":1},{"meter":"calls","period":"day","amount":1,"kind":"metered"}]}`, "limits[1]: ", 400},
		"unknown field":    {"PUT", "/admin/v1/plans/p", `{"limit":1}`, "limit: ", 400},
		"key without plan": {"PATCH", "/admin/v1/keys/" + id, `{"plan":"none"}`, "plan: there is no plan", 400},
		"new key":          {"POST", "/admin/v1/keys", `{"organization_id":"o","product":"ai","permissions":["read"],"plan":"none"}`, "plan: there is no plan", 400},
		"organization":     {"PUT", "/admin/v1/organizations/o/plan", `{"plan":"none"}`, "plan: there is no plan", 400},
		"no plan":          {"PUT", "/admin/v1/organizations/o/plan", `{}`, "plan: ", 400},
		"default":          {"DELETE", "/admin/v1/plans/default", "", "EDGE_DEFAULT_PLAN", 409},
		"unknown":          {"DELETE", "/admin/v1/plans/none", "", "not_found", 404},
	} {
		t.Run(name, func(t *testing.T) {
			if got := x.operate(t, tt.method, tt.path, tt.body, tt.status); !strings.Contains(got, tt.reason) {
				t.Errorf("%s, want %q", got, tt.reason)
			}
		})
	}
}

// Calls are held to the plan of the organization and that of the key, failed ones are given back, and headers and the
// limits that a customer reads say what is left.
func TestQuotas(t *testing.T) {
	x := newWorld(t)
	x.operate(t, "PUT", "/admin/v1/plans/default", `{"limits":[{"meter":"calls","period":"month","amount":2,"kind":"hard"}]}`, http.StatusOK)
	x.operate(t, "PUT", "/admin/v1/plans/narrow", `{"limits":[{"meter":"calls","period":"day","amount":1,"kind":"metered"}]}`, http.StatusOK)
	id, key := x.key(t, "ai", apikey.Read)
	x.operate(t, "PATCH", "/admin/v1/keys/"+id, `{"plan":"narrow"}`, http.StatusOK)
	chat := func() *httptest.ResponseRecorder { return x.do(t, "POST", "/product/v1/ai/chat", key, "{}") }
	x.relay = func(http.ResponseWriter, proxy.Call) error { return errBroken }
	for range 3 {
		if got := chat(); got.Code != http.StatusBadGateway {
			t.Fatalf("a failed call: %d", got.Code)
		}
	}
	x.relay = succeed
	first := chat()
	if got := first.Header().Get("RateLimit-Policy"); !strings.HasPrefix(got, `"calls-month";q=2;w=`) || !strings.HasPrefix(first.Header().Get("RateLimit"), `"calls-month";r=1;t=`) {
		t.Errorf("policy %s, limit %s", got, first.Header().Get("RateLimit"))
	}
	if got := chat().Header().Get("X-Switchyard-Quota-Exceeded"); got != "calls-day" {
		t.Errorf("exceeded %q, want calls-day", got)
	}
	refused := chat()
	if refused.Code != http.StatusTooManyRequests || refused.Header().Get("Retry-After") == "" || !strings.Contains(refused.Body.String(), `"error":"quota_exceeded"`) {
		t.Errorf("%d %s, retry after %q", refused.Code, refused.Body, refused.Header().Get("Retry-After"))
	}
	if !strings.HasPrefix(refused.Header().Get("RateLimit"), `"calls-month";r=0;t=`) {
		t.Errorf("limit %s", refused.Header().Get("RateLimit"))
	}
	if free := x.do(t, "POST", "/product/v1/ai/anthropic/v1/messages/count_tokens", key, "{}"); free.Code != http.StatusOK {
		t.Errorf("a call that is not billed: %d", free.Code)
	}
	var limits struct {
		Plan    string
		KeyPlan string `json:"key_plan"`
		Limits  []struct {
			Of, Meter, Period, Kind string
			Amount, Used, Remaining int64
			ResetsAt                time.Time `json:"resets_at"`
		}
	}
	w := x.do(t, "GET", "/product/v1/_meta/limits", key, "")
	if err := json.Unmarshal(w.Body.Bytes(), &limits); err != nil {
		t.Fatal(err)
	}
	for i, l := range limits.Limits {
		if !l.ResetsAt.After(time.Now()) {
			t.Errorf("limit %d resets at %s", i, l.ResetsAt)
		}
		limits.Limits[i].ResetsAt = time.Time{}
	}
	got, err := json.Marshal(limits)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"Plan":"default","key_plan":"narrow","Limits":[` +
		`{"Of":"key","Meter":"calls","Period":"day","Kind":"metered","Amount":1,"Used":2,"Remaining":0,"resets_at":"0001-01-01T00:00:00Z"},` +
		`{"Of":"organization","Meter":"calls","Period":"month","Kind":"hard","Amount":2,"Used":2,"Remaining":0,"resets_at":"0001-01-01T00:00:00Z"}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if w := x.do(t, "GET", "/product/v1/_meta/limits", "", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("limits without a key: %d", w.Code)
	}
}
