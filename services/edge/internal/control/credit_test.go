package control_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
)

func TestCredits(t *testing.T) {
	x := newWorld(t)
	const path = "/admin/v1/organizations/org-1/credits"
	x.operate(t, "PUT", "/admin/v1/plans/default", `{"prepaid":true}`, http.StatusOK)
	_, key := x.key(t, "ai", apikey.Read)
	_, sends := x.key(t, "webhooks", apikey.Write)
	refused := x.do(t, "POST", "/product/v1/ai/chat", key, "{}")
	if refused.Code != http.StatusForbidden || !strings.Contains(refused.Body.String(), `"error":"credits_exhausted","error_class":"policy"`) {
		t.Errorf("without credits: %d %s", refused.Code, refused.Body)
	}
	if refused.Header().Get("RateLimit") != "" || refused.Header().Get("Retry-After") != "" {
		t.Errorf("headers %v", refused.Header())
	}
	if w := x.do(t, "POST", "/product/v1/webhooks/deliveries", sends, "{}"); w.Code != http.StatusOK {
		t.Errorf("a call that needs no credits: %d %s", w.Code, w.Body)
	}
	if got := x.do(t, "GET", "/product/v1/_meta/limits", key, "").Body.String(); !strings.Contains(got, `"limits":[],"credits":null`) {
		t.Errorf("limits %s", got)
	}
	expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	body := fmt.Sprintf(`{"amount_cents":5,"expires_at":%q,"note":"a gift","idempotency_key":"k1"}`, expires)
	first := x.operate(t, "POST", path, body, http.StatusCreated)
	if again := x.operate(t, "POST", path, body, http.StatusOK); again != first {
		t.Errorf("a repeat answers %s, want %s", again, first)
	}
	if got := x.operate(t, "POST", path, strings.Replace(body, "5", "6", 1), http.StatusUnprocessableEntity); !strings.Contains(got, "idempotency_key_reused") {
		t.Errorf("another grant of the same key: %s", got)
	}
	if got := x.operate(t, "GET", path, "", http.StatusOK); !strings.HasPrefix(got,
		`{"organization_id":"org-1","balance_cents":5,"balance_pico_usd":"50000000000","uncovered_pico_usd":"0","grants":[{"id":"crd_`) {
		t.Errorf("credits %s", got)
	}
	if got := x.do(t, "GET", "/product/v1/_meta/limits", key, "").Body.String(); !strings.Contains(got, `"credits":{"balance_cents":5,`) {
		t.Errorf("limits %s", got)
	}
	if audit := x.operate(t, "GET", "/admin/v1/audit?organization_id=org-1", "", http.StatusOK); !strings.Contains(audit, `"action":"credit.grant"`) {
		t.Errorf("audit %s", audit)
	}
	for body, want := range map[string]string{
		`{}`:                                     "amount_cents: ",
		`{"amount_cents":100000001}`:             "amount_cents: ",
		`{"amount_cents":1}`:                     "expires_at: ",
		`{"amount_cents":1.5}`:                   "amount_cents: ",
		`{"amount_cents":1,"expires_at":"soon"}`: "expires_at: ",
		`{"amount_cents":1,"expires_at":"2020-01-01T00:00:00Z"}`:                    "expires_at: ",
		`{"amount_cents":1,"expires_at":"` + expires + `"}`:                         "idempotency_key: ",
		`{"amount_cents":1,"expires_at":"` + expires + `","idempotency_key":"a b"}`: "idempotency_key: ",
		`{"amount_cents":1,"expires_at":"` + expires + `","note":"\u0007"}`:         "note: ",
		`{"cents":1}`: "cents: ",
	} {
		if got := x.operate(t, "POST", path, body, http.StatusBadRequest); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", body, got, want)
		}
	}
}
