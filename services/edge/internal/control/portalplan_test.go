package control_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// The calls of a session are held to its organization's plan, together with those of its keys. One that fails, and one
// that is not billed, uses nothing up.
func TestPortalQuota(t *testing.T) {
	x := newPortal(t)
	operate := func(method, path, body string) {
		t.Helper()
		if a := x.do(t, method, path, body, "Authorization", "Bearer "+operatorToken); a.Status != http.StatusOK {
			t.Fatalf("%s %s: %d", method, path, a.Status)
		}
		if err := x.plans.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	operate("PUT", "/admin/v1/plans/two", `{"limits":[{"meter":"calls","period":"month","amount":2,"kind":"hard"},{"meter":"deliveries","period":"month","amount":1,"kind":"soft"}]}`)
	operate("PUT", "/admin/v1/organizations/org-1/plan", `{"plan":"two"}`)
	session := x.session(t, request("org-1", "", "", `["webhooks:*"]`))
	send := func(session []string) portalAnswer {
		return x.do(t, "POST", "/portal/api/product/v1/webhooks/deliveries", `{}`, session...)
	}
	x.fails = true
	for range 3 {
		if a := send(session); a.Status != http.StatusBadGateway {
			t.Fatalf("a failed call: %d", a.Status)
		}
	}
	x.fails = false
	for i, exceeded := range []string{"", "deliveries-month"} {
		a := send(session)
		if a.Status != http.StatusOK || a.Header.Get("X-Switchyard-Quota-Exceeded") != exceeded {
			t.Errorf("call %d: %d, exceeded %q, want 200 and %q", i, a.Status, a.Header.Get("X-Switchyard-Quota-Exceeded"), exceeded)
		}
	}
	refused := send(session)
	text, err := io.ReadAll(refused.Body)
	if err != nil || refused.Status != http.StatusTooManyRequests || !strings.Contains(string(text), `"error":"quota_exceeded"`) || refused.Header.Get("Retry-After") == "" {
		t.Errorf("a call beyond the plan: %d %s, %v", refused.Status, text, err)
	}
	if a := x.do(t, "GET", "/portal/api/product/v1/webhooks/deliveries", "", session...); a.Status != http.StatusOK {
		t.Errorf("a call that is not billed: %d", a.Status)
	}
	if a := send(x.session(t, request("org-2", "", "", `["webhooks:*"]`))); a.Status != http.StatusOK {
		t.Errorf("another organization's call: %d", a.Status)
	}
	if len(x.metrics) != 3 {
		t.Errorf("calls count as %v, want two of the one organization and one of the other", x.metrics)
	}
}
