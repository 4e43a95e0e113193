package api

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// usedUpErrors are the refusals of a used-up plan and of used-up credits, as package quota returns them.
func usedUpErrors() []*apierr.Error {
	return []*apierr.Error{
		{Kind: apierr.KindRateLimited, Reason: quota.ReasonExceeded, Class: apierr.ClassPolicy, Text: "used up", RetryAfter: time.Hour},
		{Kind: apierr.KindForbidden, Reason: quota.ReasonCreditsExhausted, Class: apierr.ClassPolicy, Text: "used up"},
	}
}

// detailOf returns the object of a document that has an error_class, nil if none has.
func detailOf(document any) map[string]any {
	object, _ := document.(map[string]any)
	if object["error_class"] != nil {
		return object
	}
	for _, member := range object {
		if found := detailOf(member); found != nil {
			return found
		}
	}
	return nil
}

// On every route and in every form, the refusal of a used-up plan says not to retry: in a header and in the body. The
// specification gives the errors of notifications a text alone.
func TestUsedUpPlansSayNotToRetry(t *testing.T) {
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	a := &API{options: Options{Table: table}}
	check := func(form string, e *apierr.Error, text []byte) {
		var document map[string]any
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatalf("%s: %s: %v", form, text, err)
		}
		detail := detailOf(document)
		if detail["error_class"] != "policy" || detail["retryable"] != false || detail["request_id"] != "r" {
			t.Errorf("%s: %s in %s", form, e.Reason, text)
		}
	}
	for _, e := range usedUpErrors() {
		for _, r := range table.Routes {
			for _, accept := range []string{"application/json", "application/problem+json"} {
				request, w := httptest.NewRequest(r.Method, "/", nil), httptest.NewRecorder()
				request.Header.Set("Accept", accept)
				w.Header().Set("X-Request-Id", "r")
				rpc.WriteError(w, request, e, a.errorBody(r.Path))
				if got := w.Header().Get("X-Should-Retry"); got != "false" {
					t.Errorf("%s: %s with X-Should-Retry %q", r.Path, e.Reason, got)
				}
				if accept == "application/json" && table.PlainErrors(r.Path) {
					continue
				}
				check(r.Path, e, w.Body.Bytes())
			}
		}
		message := refusal(e, "lane", "r")
		check("WebSocket", e, message)
		var frame struct {
			Headers map[string]string `json:"headers"`
		}
		if err := json.Unmarshal(message, &frame); err != nil || frame.Headers["x-should-retry"] != "false" {
			t.Errorf("WebSocket: %s in %s", e.Reason, message)
		}
	}
}

// A rate limit is to be retried after its wait, in a WebSocket's message, too.
func TestSocketRefusalToRetry(t *testing.T) {
	limited := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "slow down")
	limited.RetryAfter = time.Second
	var frame struct {
		Headers map[string]string `json:"headers"`
	}
	err := json.Unmarshal(refusal(limited, "", "r"), &frame)
	if _, says := frame.Headers["x-should-retry"]; err != nil || says || frame.Headers["retry-after"] != "1" {
		t.Errorf("headers %v, %v", frame.Headers, err)
	}
}
