package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/circuit"
)

func TestListCircuits(t *testing.T) {
	target := breaker.Target{Organization: "acme co", Host: "[2001:db8::1]", Port: 8443}
	d := &domain{circuits: []circuit.Circuit{
		{Target: target, State: circuit.StateOpen, OpenedAt: moment, NextAttemptAt: moment.Add(time.Minute), Openings: 2, Failures: 7, LastFailedAt: moment, Endpoints: 1, Host: circuit.StateClosed, WaitingFlows: 2, Flows: []circuit.Flow{{Endpoint: anID, State: circuit.StateOpen, OpenedAt: moment, Openings: 2, Failures: 7}, {State: circuit.StateHalfOpen}}},
		{Target: breaker.Target{Organization: "b", Host: "h", Port: 443}, State: circuit.StateClosed, Host: circuit.StateClosed},
	}, nextTarget: target}
	h := newServer(t, d).Handler()
	_, document := call(t, h, "GET", "/v1/circuits?all_organizations=true&state=open&state=half_open&limit=7", "")
	next, _ := document["next_cursor"].(string)
	want := []any{
		map[string]any{
			"organization_id": "acme co", "host": "[2001:db8::1]", "port": 8443.0, "state": "open", "opened_at": "2023-11-14T22:13:20Z",
			"next_attempt_at": "2023-11-14T22:14:20Z", "openings": 2.0, "consecutive_failures": 7.0, "last_failed_at": "2023-11-14T22:13:20Z",
			"last_delivered_at": nil, "endpoints": 1.0, "host_state": "closed", "waiting_flows": 2.0, "flows": []any{
				map[string]any{
					"endpoint_id": anID.String(), "state": "open", "opened_at": "2023-11-14T22:13:20Z", "next_attempt_at": nil, "openings": 2.0,
					"consecutive_failures": 7.0, "last_failed_at": nil, "last_delivered_at": nil,
				},
				map[string]any{
					"endpoint_id": nil, "state": "half_open", "opened_at": nil, "next_attempt_at": nil, "openings": 0.0,
					"consecutive_failures": 0.0, "last_failed_at": nil, "last_delivered_at": nil,
				},
			},
		},
		map[string]any{
			"organization_id": "b", "host": "h", "port": 443.0, "state": "closed", "opened_at": nil, "next_attempt_at": nil, "openings": 0.0,
			"consecutive_failures": 0.0, "last_failed_at": nil, "last_delivered_at": nil, "endpoints": 0.0,
			"host_state": "closed", "flows": []any{}, "waiting_flows": 0.0,
		},
	}
	if diff := cmp.Diff(want, document["circuits"]); diff != "" {
		t.Errorf("circuits (-want +got):\n%s", diff)
	}
	call(t, h, "GET", "/v1/circuits?cursor="+url.QueryEscape(next), "")
	d.nextTarget = breaker.Target{}
	if _, document := call(t, h, "GET", "/v1/circuits", "", "X-Organization-Id", "acme"); document["next_cursor"] != "" {
		t.Errorf("the last page's cursor is %q", document["next_cursor"])
	}
	asked := []any{
		[]any{circuit.Filter{Every: true, States: []circuit.State{"open", "half_open"}}, breaker.Target{}, 7},
		[]any{circuit.Filter{Organization: "default", States: []circuit.State{}}, target, 50},
		[]any{circuit.Filter{Organization: "acme", States: []circuit.State{}}, breaker.Target{}, 50},
	}
	if diff := cmp.Diff(asked, d.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestListCircuitsRefuses(t *testing.T) {
	d := &domain{}
	h := newServer(t, d).Handler()
	for name, tt := range map[string]struct{ query, text string }{
		"an unknown state":          {"state=ajar", "state"},
		"a state twice":             {"state=open&state=open", "state"},
		"a page of none":            {"limit=0", "limit"},
		"no cursor":                 {"cursor=!", "cursor"},
		"another list's cursor":     {"cursor=" + "ZGVsaXZlcnk6MDEyMzQ1Njc4OWFiY2RlZg", "cursor"},
		"a cursor without a host":   {"cursor=" + "Y2lyY3VpdDo0NDM", "cursor"},
		"a cursor of no port":       {"cursor=" + "Y2lyY3VpdDo5OTk5OSBoIG8", "cursor"},
		"every organization of one": {"all_organizations=true&organization_id=acme", "all_organizations"},
	} {
		t.Run(name, func(t *testing.T) {
			if w, document := call(t, h, "GET", "/v1/circuits?"+tt.query, ""); w.Code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(document["reason"]), tt.text) {
				t.Errorf("status %d, %v", w.Code, document)
			}
		})
	}
	if len(d.asked) > 0 {
		t.Errorf("asked %v", d.asked)
	}
}
