package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/platform/lifecycle"
)

// providerReport is what the API says of a provider.
type providerReport struct {
	Provider, Status string
	Selectable       bool
	Reason           any `json:"not_selectable_reason"`
	Breakers         []fields
	Models           []fields
	Ranks            []fields
	Bulkhead         fields
	FleetKey         bool   `json:"fleet_key"`
	Since            string `json:"status_since"`
}

// check checks the report after first has failed, and second has answered once.
func (p *providerReport) check(tb testing.TB) {
	tb.Helper()
	switch p.Provider {
	case "first":
		if p.Status != "down" || p.Selectable || p.Reason != "breaker_open" {
			tb.Errorf("first is %s, selectable %t because of %v, want down, false, breaker_open", p.Status, p.Selectable, p.Reason)
		}
		if p.Since == "" {
			tb.Error("first is down since no time")
		}
		has(tb, p.Breakers[0], fields{"state": "open", "last_error_class": "server_error"})
		if p.Breakers[0]["retry_at"] == nil {
			tb.Error("the breaker has no retry_at")
		}
		has(tb, p.Models[0], fields{"error_rate": 1.0})
		if p.Models[0]["attempts"] == 0.0 {
			tb.Error("first has no attempts")
		}
	case "second":
		if p.Status != "healthy" || !p.Selectable {
			tb.Errorf("second is %s, selectable %t, want healthy, true", p.Status, p.Selectable)
		}
		has(tb, p.Models[0], fields{"attempts": 1.0, "error_rate": 0.0})
		if len(p.Ranks) == 0 || p.Bulkhead["capacity"] == 0.0 {
			tb.Errorf("second has the ranks %v and the bulkhead %v, want some of each", p.Ranks, p.Bulkhead)
		}
	case "keyless":
		if p.Status != "unconfigured" || p.FleetKey || p.Reason != "missing_key" {
			tb.Errorf("%+v", p)
		}
	}
}

func TestProvidersAndFleet(t *testing.T) {
	b := setup(t)
	const chat = `"messages":[{"role":"user","content":"hi"}]`
	for range 6 {
		b.chat(t, `{"model":"first/down","allow_substitution":false,`+chat+`}`)
	}
	if a := b.chat(t, `{"model":"second/spare",`+chat+`}`); a.status != http.StatusOK {
		t.Fatal(a.body)
	}
	var page struct {
		Providers []providerReport
		Next      string `json:"next_cursor"`
	}
	b.visit(t, "svc", "GET", "/v1/providers?limit=3", "").in(t, http.StatusOK, &page)
	if len(page.Providers) != 3 || page.Next == "" {
		t.Fatalf("%+v", page)
	}
	b.visit(t, "svc", "GET", "/v1/providers", "").in(t, http.StatusOK, &page)
	for _, p := range page.Providers {
		p.check(t)
	}

	b.status.Monitor.Refresh(t.Context())
	var fleet struct {
		Status, Summary, Since string
		Gateway                string `json:"gateway_status"`
		Vendor                 string `json:"vendor_status"`
		Replicas, Vendors      []fields
	}
	b.visit(t, "svc", "GET", "/v1/fleet/status", "").in(t, http.StatusOK, &fleet)
	if fleet.Status != "vendor_degraded" || fleet.Gateway != "up" || fleet.Vendor != "degraded" {
		t.Errorf("%s: gateway %s, vendors %s, want vendor_degraded, up, degraded", fleet.Status, fleet.Gateway, fleet.Vendor)
	}
	if fleet.Since == "" || !strings.Contains(fleet.Summary, "first") {
		t.Errorf("since %q: %q, want a time and first", fleet.Since, fleet.Summary)
	}
	if len(fleet.Replicas) != 1 {
		t.Errorf("%d replicas, want 1", len(fleet.Replicas))
	}
	for _, v := range fleet.Vendors {
		if v["provider"] == "first" {
			has(t, v, fields{"status": "down", "last_error_class": "server_error", "last_success_at": nil})
			if v["last_failure_at"] == nil {
				t.Error("first has no last_failure_at")
			}
		}
		if v["provider"] == "fourth" && v["status"] != "unknown" {
			t.Errorf("%v", v)
		}
	}
	b.checks = func(context.Context) []status.Check { return []status.Check{{Name: "ledger", Err: errors.New("full")}} }
	b.status.Monitor.Refresh(t.Context())
	b.visit(t, "svc", "GET", "/v1/fleet/status", "").in(t, http.StatusOK, &fleet)
	if fleet.Status != "gateway_down" || fleet.Gateway != "down" || fleet.Vendor != "degraded" {
		t.Errorf("%+v", fleet)
	}
	var availability struct {
		Status       string
		Dependencies []fields
		Single       []string `json:"single_points_of_failure"`
	}
	b.visit(t, "svc", "GET", "/v1/availability", "").in(t, http.StatusOK, &availability)
	if availability.Status != "unavailable" || len(availability.Single) == 0 || availability.Single[0] != "postgres" {
		t.Errorf("%+v", availability)
	}
	for _, d := range availability.Dependencies {
		if d["name"] == "postgres" {
			has(t, d, fields{"status": "up"})
			for _, name := range []string{"latency_ms", "checked_at", "since"} {
				if d[name] == nil {
					t.Errorf("postgres has no %s", name)
				}
			}
			if d["impact"] == "" {
				t.Error("postgres has no impact")
			}
		}
	}
	for _, path := range []string{"/v1/providers", "/v1/availability", "/v1/fleet/status"} {
		for token, want := range map[string]int{"": 401, "sup": 403, "ops": 200} {
			if a := b.visit(t, token, "GET", path, ""); a.status != want {
				t.Errorf("%s as %q: %d %s", path, token, a.status, a.body)
			}
		}
	}
}

// Readiness says what is not ready and what that means, and repeats no driver's error.
func TestReadySaysWhy(t *testing.T) {
	serve := func(checks ...status.Check) (int, string) {
		w := httptest.NewRecorder()
		api.Ready(func(context.Context) []status.Check { return checks }).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/health/ready", http.NoBody))
		return w.Code, w.Body.String()
	}
	if code, body := serve(status.Check{Name: "lifecycle"}, status.Check{Name: "ledger"}); code != 200 || body != `{"status":"ok","checks":{"ledger":"ok","lifecycle":"ok"},"not_ready":[]}`+"\n" {
		t.Errorf("%d %s", code, body)
	}
	code, body := serve(status.Check{Name: "lifecycle", Err: lifecycle.ErrDraining}, status.Check{Name: "ledger", Err: errors.New("dial tcp 10.0.0.1: password=hunter2")}, status.Check{Name: "new", Err: errors.New("hunter2")})
	if code != 503 {
		t.Errorf("status %d, want 503", code)
	}
	for _, want := range []string{`"status":"unavailable"`, "is stopping", "GATEWAY_SPOOL_LIMIT", "the log says why"} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
	if strings.Contains(body, "hunter2") {
		t.Errorf("the driver's error is in %s", body)
	}
}
