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
		"no cursor":       {"GET", "/v1/house/events?cursor=!", "", "cursor"},
	} {
		t.Run(name, func(t *testing.T) {
			if w, document := call(t, h, tt.verb, tt.path, tt.body); w.Code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(document["reason"]), tt.text) {
				t.Errorf("status %d, %v", w.Code, document)
			}
		})
	}
}

func TestListHouseEvents(t *testing.T) {
	d := &domain{recorded: []event.Recorded{{
		Record: event.Record{CloudEvent: []byte(`{"id":"b1"}`)}, Sequence: 7, Organization: "acme", Owner: "ann", RecordedAt: moment,
	}}}
	h := newServer(t, d).Handler()
	_, document := call(t, h, "GET", "/v1/house/events?limit=3", "", "X-Organization-Id", "acme")
	if diff := cmp.Diff(map[string]any{"events": []any{map[string]any{
		"cursor": "Nw", "organization_id": "acme", "owner_id": "ann", "cloud_event": map[string]any{"id": "b1"}, "recorded_at": "2023-11-14T22:13:20Z",
	}}}, document); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	call(t, h, "GET", "/v1/house/events?cursor=Nw", "", "X-Organization-Id", "acme")
	if diff := cmp.Diff([]any{[]any{"acme", int64(0), 3}, []any{"acme", int64(7), 50}}, d.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}
