//go:build e2e

package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// An endpoint gets the events that its filter matches, as it is at that moment, and those for which it can't be
// evaluated.
func TestFilter(t *testing.T) {
	t.Parallel()
	h := use(t)
	webhooks, to := h.service(stack.WebhookEgress, unique("org")), h.receiver()
	e := to.subscribe(t, webhooks, []string{"order.*"}, object{"filter": "event.payload.total > 100 && event.type == 'order.paid'"})
	emit := func(payload object) (answer struct {
		Matched  int `json:"matched"`
		Filtered int `json:"skipped_filtered"`
		To       []struct {
			Delivery string `json:"delivery_id"`
			Error    string `json:"filter_error"`
		} `json:"deliveries"`
	},
	) {
		t.Helper()
		webhooks.post(t, eventPath, object{"event_type": "order.paid", "payload": payload}).into(t, http.StatusAccepted, &answer)
		return answer
	}
	for name, tt := range map[string]struct {
		payload object
		matched int
		err     string
	}{
		"large":      {object{"total": 101}, 1, ""},
		"small":      {object{"total": 100}, 0, ""},
		"without it": {object{"sum": 101}, 0, ""},
		"a text":     {object{"total": "101"}, 1, "evaluation_failed"},
	} {
		got := emit(tt.payload)
		if got.Matched != tt.matched || got.Filtered != 1-tt.matched {
			t.Errorf("%s: %d matched, %d filtered, want %d and %d", name, got.Matched, got.Filtered, tt.matched, 1-tt.matched)
			continue
		}
		for _, d := range got.To {
			var record struct {
				Error *string `json:"filter_error"`
			}
			if end := ended(t, webhooks, d.Delivery); end.Status != "delivered" {
				t.Errorf("%s: the delivery is %s", name, end.Status)
			}
			webhooks.get(t, deliveryPath+"/"+d.Delivery).into(t, http.StatusOK, &record)
			if d.Error != tt.err || (record.Error != nil) != (tt.err != "") {
				t.Errorf("%s: the answer says %q, the record %v, want %q", name, d.Error, record.Error, tt.err)
			}
		}
	}
	webhooks.do(t, http.MethodPatch, endpointPath+"/"+e.ID, object{"filter": ""}).want(t, http.StatusOK)
	if got := emit(object{"total": 1}); got.Matched != 1 {
		t.Errorf("without a filter %d matched", got.Matched)
	}
	for expression, place := range map[string]string{
		"event.payload.total >":        "filter: line 1, column 22: ",
		"true &&\n  event.kind == 'a'": "filter: line 2, column 3: ",
		"event.type.matches('a+')":     "filter: line 1, column 19: ",
		strings.Repeat("a", 1025):      "filter",
	} {
		webhooks.do(t, http.MethodPatch, endpointPath+"/"+e.ID, object{"filter": expression}).
			refused(t, http.StatusBadRequest, "invalid_request", place)
	}
}
