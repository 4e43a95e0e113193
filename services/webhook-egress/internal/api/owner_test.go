package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// A caller that acts for an owner is refused what concerns the whole organization.
func TestOwnersHaveNoAccessToOrganizationRoutes(t *testing.T) {
	d := &domain{}
	h := newServer(t, d).Handler()
	for _, request := range []struct{ verb, path, body string }{
		{"GET", "/v1/circuits", ""},
		{"GET", "/v1/call-counts", ""},
		{"GET", "/v1/house/events", ""},
		{"POST", "/v1/house/events", `{"event_id":"e","type":"switchyard.a","source":"/a","occurred_at":"2026-01-02T03:04:05Z","data":{}}`},
		{"PUT", "/v1/event-types/a", `{}`},
		{"DELETE", "/v1/event-types/a", ""},
	} {
		w, document := call(t, h, request.verb, request.path, request.body, "X-Owner-Id", "ann", "X-Organization-Id", "acme")
		if reason, _ := document["reason"].(string); w.Code != http.StatusForbidden || !strings.Contains(reason, "X-Owner-Id") {
			t.Errorf("%s %s: %d %s", request.verb, request.path, w.Code, w.Body)
		}
	}
	if len(d.asked) != 0 {
		t.Errorf("asked for %v", d.asked)
	}
}
