package api

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/platform/apierr"
)

// slow is an engine whose streams fail after a while.
type slow struct {
	Engine

	after time.Duration
}

func (s slow) StreamChat(context.Context, *inference.Request) (*inference.Stream, error) {
	time.Sleep(s.after)
	return nil, apierr.New(apierr.KindUnavailable, inference.ReasonAllProvidersFailed, "every provider failed")
}

// A caller that requests an early stream gets pings before any content and the error as an event. An error before the
// first ping keeps its status, as do the errors of all other callers.
func TestEarlyStream(t *testing.T) {
	cases := []struct {
		name   string
		early  bool
		after  time.Duration
		pings  int
		status bool // the error is the answer's own
	}{
		{"not asked for", false, time.Minute, 0, true},
		{"an error before the first ping", true, 14 * time.Second, 0, true},
		{"an error after it", true, 40 * time.Second, 2, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				recorder := httptest.NewRecorder()
				s := &inferenceServer{engine: slow{after: c.after}}
				err := s.serveStream(t.Context(), recorder, &inference.Request{ID: "req_1"}, c.early)
				body := recorder.Body.String()
				if (err != nil) != c.status || strings.Count(body, ": ping") != c.pings || c.status && (body != "" || recorder.Header().Get("Content-Type") != "") {
					t.Errorf("error %v, header %v, body %q", err, recorder.Header(), body)
				}
				if !c.status && (!strings.Contains(body, "event: error\ndata: {\"error\":\"all_providers_failed\"") || !strings.Contains(body, "req_1")) {
					t.Errorf("body %q, want the error as an event", body)
				}
				time.Sleep(time.Hour)
				if recorder.Body.String() != body {
					t.Error("it pings on")
				}
			})
		})
	}
}
