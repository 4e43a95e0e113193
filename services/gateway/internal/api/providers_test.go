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
		Providers []struct {
			Provider, Status string
			Selectable       bool
			Reason           *string `json:"not_selectable_reason"`
			Breakers         []fields
			Models           []fields
			Ranks            []fields
			Bulkhead         fields
			FleetKey         bool   `json:"fleet_key"`
			Since            string `json:"status_since"`
		}
		Next string `json:"next_cursor"`
	}
	b.visit(t, "svc", "GET", "/v1/providers?limit=3", "").in(t, http.StatusOK, &page)
	if len(page.Providers) != 3 || page.Next == "" {
		t.Fatalf("%+v", page)
	}
	b.visit(t, "svc", "GET", "/v1/providers", "").in(t, http.StatusOK, &page)
	for _, p := range page.Providers {
		switch p.Provider {
		case "first":
			if p.Status != "down" || p.Selectable || *p.Reason != "breaker_open" || p.Breakers[0]["state"] != "open" || p.Breakers[0]["retry_at"] == nil ||
				p.Breakers[0]["last_error_class"] != "server_error" || p.Models[0]["attempts"] == 0.0 || p.Models[0]["error_rate"] != 1.0 || p.Since == "" {
				t.Errorf("%+v", p)
			}
		case "second":
			if p.Status != "healthy" || !p.Selectable || p.Models[0]["attempts"] != 1.0 || p.Models[0]["error_rate"] != 0.0 || len(p.Ranks) == 0 || p.Bulkhead["capacity"] == 0.0 {
				t.Errorf("%+v", p)
			}
		case "keyless":
			if p.Status != "unconfigured" || p.FleetKey || *p.Reason != "missing_key" {
				t.Errorf("%+v", p)
			}
		}
	}

	b.status.Monitor.Refresh(t.Context())
	var fleet struct {
		Status, Summary, Since string
		Gateway                string `json:"gateway_status"`
		Vendor                 string `json:"vendor_status"`
		Replicas, Vendors      []fields
	}
	b.visit(t, "svc", "GET", "/v1/fleet/status", "").in(t, http.StatusOK, &fleet)
	if fleet.Status != "vendor_degraded" || fleet.Gateway != "up" || fleet.Vendor != "degraded" || fleet.Since == "" || len(fleet.Replicas) != 1 || !strings.Contains(fleet.Summary, "first") {
		t.Errorf("%+v", fleet)
	}
	for _, v := range fleet.Vendors {
		if v["provider"] == "first" && (v["status"] != "down" || v["last_error_class"] != "server_error" || v["last_failure_at"] == nil || v["last_success_at"] != nil) {
			t.Errorf("%v", v)
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
		if d["name"] == "postgres" && (d["status"] != "up" || d["latency_ms"] == nil || d["checked_at"] == nil || d["since"] == nil || d["impact"] == "") {
			t.Errorf("%v", d)
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
	if code != 503 || !strings.Contains(body, `"status":"unavailable"`) || !strings.Contains(body, "is stopping") || !strings.Contains(body, "GATEWAY_SPOOL_LIMIT") || !strings.Contains(body, "the log says why") || strings.Contains(body, "hunter2") {
		t.Errorf("%d %s", code, body)
	}
}
