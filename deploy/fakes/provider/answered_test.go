package provider

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"switchyard.dev/deploy/fakes/fault"
)

func TestAnsweredAreWhatAnInvoiceWouldHave(t *testing.T) {
	const chat = `{"model":"m","stream":true,"messages":[{"role":"user","content":"one"}]}`
	tests := map[string]struct {
		req      request
		action   fault.Action
		answered int
	}{
		"whole":                 {request{"POST", "/v1/chat/completions", strings.Replace(chat, "true", "false", 1), bearer}, fault.Action{}, 1},
		"streamed":              {request{"POST", "/v1/chat/completions", chat, bearer}, fault.Action{}, 1},
		"embedded":              {request{"POST", "/v1/embeddings", `{"model":"m","input":"one"}`, bearer}, fault.Action{}, 1},
		"cut in its midst":      {request{"POST", "/v1/chat/completions", chat, bearer}, fault.Action{AfterBytes: new(50)}, 1},
		"refused by the vendor": {request{"POST", "/v1/chat/completions", `{"model":""}`, bearer}, fault.Action{}, 0},
		"refused by a script":   {request{"POST", "/v1/chat/completions", chat, bearer}, fault.Action{Status: http.StatusServiceUnavailable}, 0},
		"no completion":         {request{"GET", "/v1/models", "", bearer}, fault.Action{}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			fake := New(fault.Script{Rules: []fault.Rule{{Action: tt.action}}})
			srv := httptest.NewServer(fake)
			r, err := http.NewRequestWithContext(t.Context(), tt.req.method, srv.URL+tt.req.path, strings.NewReader(tt.req.body))
			if err != nil {
				t.Fatal(err)
			}
			for name, v := range tt.req.header {
				r.Header.Set(name, v)
			}
			if resp, err := http.DefaultClient.Do(r); err == nil {
				_ = resp.Body.Close()
			}
			srv.Close() // waits for the handler
			got := fake.Answered(10)
			if len(got) != tt.answered {
				t.Fatalf("%d answered, want %d", len(got), tt.answered)
			}
			if len(got) == 1 && (got[0].Body != tt.req.body || got[0].Path != tt.req.path) {
				t.Errorf("answered %s %s, want %s %s", got[0].Path, got[0].Body, tt.req.path, tt.req.body)
			}
		})
	}
}
