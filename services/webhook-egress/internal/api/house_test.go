package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/webhook-egress/internal/event"
)

const houseBody = `{"event_id":"b1","type":"switchyard.budget.threshold","source":"/switchyard/gateway","subject":"organization/acme",` +
	`"occurred_at":"2023-11-14T22:13:20Z","data":{"percent": 80}}`

func TestEmitHouseEvent(t *testing.T) {
	d := &domain{result: event.Result{Deliveries: make([]event.Fanned, 2)}}
	h := newServer(t, d).Handler()
	w, document := call(t, h, "POST", "/v1/house/events", houseBody, "X-Organization-Id", "acme")
	if diff := cmp.Diff(map[string]any{"matched": 2.0, "deduplicated": false}, document); diff != "" || w.Code != http.StatusAccepted {
		t.Errorf("status %d, answer (-want +got):\n%s", w.Code, diff)
	}
	if diff := cmp.Diff(event.HouseRequest{
		ID: "b1", Organization: "acme", Type: "switchyard.budget.threshold", Source: "/switchyard/gateway", Subject: "organization/acme",
		Occurred: moment.UTC(), Data: []byte(`{"percent": 80}`),
	}, d.asked[0]); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	d.result = event.Result{Deduplicated: true}
	if w, _ := call(t, h, "POST", "/v1/house/events", houseBody, "X-Organization-Id", "acme"); w.Code != http.StatusOK {
		t.Errorf("a repeat: %d, want 200", w.Code)
	}
}

func TestHouseEventsRefusals(t *testing.T) {
	h := newServer(t, &domain{}).Handler()
	for name, tt := range map[string]struct{ verb, path, body, text string }{
		"no organization": {"POST", "/v1/house/events", houseBody, "organization_id"},
		"a caller's type": {"POST", "/v1/house/events", strings.Replace(houseBody, "switchyard.", "order.", 1), "type"},
		"no id":           {"POST", "/v1/house/events", strings.Replace(houseBody, `"b1"`, `""`, 1), "event_id"},
		"no time":         {"POST", "/v1/house/events", strings.Replace(houseBody, `"occurred_at":"2023-11-14T22:13:20Z",`, "", 1), "occurred_at"},
		"much data":       {"POST", "/v1/house/events", strings.Replace(houseBody, "80", `"`+strings.Repeat("x", 64<<10)+`"`, 1), "data"},
		"a page of none":  {"GET", "/v1/house/events?limit=0", "", "limit"},
		"before all":      {"GET", "/v1/house/events?after=-1", "", "after"},
	} {
		t.Run(name, func(t *testing.T) {
			if w, document := call(t, h, tt.verb, tt.path, tt.body); w.Code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(document["reason"]), tt.text) {
				t.Errorf("status %d, %v", w.Code, document)
			}
		})
	}
}
