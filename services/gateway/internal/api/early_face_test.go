package api

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/api/anthropic"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/serving/inference"
)

// The compatible faces send early pings too, and report a late error in their own form.
func TestEarlyStreamOfDialects(t *testing.T) {
	for _, c := range []struct {
		writer      dialect.Writer
		ping, error string
	}{
		{openai.Dialect{}, ": ping\n\n", `data: {"error":{"message":"every provider failed"`},
		{anthropic.Dialect{}, "event: ping\ndata: {\"type\":\"ping\"}\n\n", "event: error\ndata: {\"type\":\"error\",\"error\":{"},
	} {
		for _, early := range []bool{false, true} {
			t.Run(c.ping, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					recorder := httptest.NewRecorder()
					s := &inferenceServer{engine: slow{after: 40 * time.Second}}
					call := nativeCall{&dialect.Chat{Writer: c.writer}, &inference.Request{ID: "req_1"}}
					err := s.streamDialect(t.Context(), recorder, call, early)
					body := recorder.Body.String()
					if early != (err == nil) || !early && body != "" {
						t.Fatalf("error %v, body %q", err, body)
					}
					if early {
						if pings := strings.Count(body, c.ping); pings != 2 {
							t.Errorf("%d pings in %q, want 2", pings, body)
						}
						if !strings.Contains(body, c.error) || !strings.Contains(body, "all_providers_failed") {
							t.Errorf("body %q, want %q of all_providers_failed", body, c.error)
						}
					}
					time.Sleep(time.Hour)
					if recorder.Body.String() != body {
						t.Error("it pings on")
					}
				})
			})
		}
	}
}
