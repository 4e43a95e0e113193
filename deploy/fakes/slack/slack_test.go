package slack

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"switchyard.dev/deploy/fakes/fakestest"
	"switchyard.dev/deploy/fakes/fault"
)

const hook = "/services/T00000000/B00000000/s3cretXXXXXXXXXX"

func post(t *testing.T, srv *Server, method, path, contentType, body string) *httptest.ResponseRecorder {
	t.Helper()
	return fakestest.Send(t, srv, method, path, body, map[string]string{"Content-Type": contentType})
}

func TestPost(t *testing.T) {
	tests := []struct {
		name   string
		method string
		path   string
		form   bool
		body   string
		status int
		want   string
	}{
		{"text", "POST", hook, false, `{"text":"hi"}`, 200, "ok"},
		{"blocks alone", "POST", hook, false, `{"blocks":[{"type":"section"}]}`, 200, "ok"},
		{"attachments alone", "POST", hook, false, `{"attachments":[{}]}`, 200, "ok"},
		{"a form", "POST", hook, true, "payload=" + url.QueryEscape(`{"text":"hi"}`), 200, "ok"},
		{"a workflow", "POST", "/workflows/T1/A1/1/x", false, `{"text":"hi"}`, 200, "ok"},
		{"not JSON", "POST", hook, false, `text=hi`, 400, "invalid_payload"},
		{"not an object", "POST", hook, false, `"hi"`, 400, "invalid_payload"},
		{"nothing to say", "POST", hook, false, `{"text":""}`, 400, "no_text"},
		{"blocks are not a list", "POST", hook, false, `{"text":"x","blocks":{}}`, 400, "invalid_blocks"},
		{"a block without a type", "POST", hook, false, `{"text":"x","blocks":[{}]}`, 400, "invalid_blocks"},
		{"too many blocks", "POST", hook, false, `{"blocks":[` + strings.Repeat(`{"type":"divider"},`, 50) + `{"type":"divider"}]}`, 400, "invalid_blocks"},
		{"no such hook", "POST", "/services/T0", false, `{"text":"hi"}`, 404, "no_service"},
		{"GET", "GET", hook, false, ``, 405, "method_not_allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			contentType := "application/json"
			if tt.form {
				contentType = "application/x-www-form-urlencoded"
			}
			srv := New(fault.Script{})
			got := post(t, srv, tt.method, tt.path, contentType, tt.body)
			if got.Code != tt.status || got.Body.String() != tt.want {
				t.Errorf("got %d %q, want %d %q", got.Code, got.Body, tt.status, tt.want)
			}
			if stored := len(srv.Messages(10)); (stored == 1) != (tt.status == 200) {
				t.Errorf("%d messages stored", stored)
			}
		})
	}
}

func TestScriptedStatusesHaveTheServiceTexts(t *testing.T) {
	tests := map[string]struct {
		action fault.Action
		status int
	}{
		"channel_is_archived": {fault.Action{Status: 410}, 410},
		"action_prohibited":   {fault.Action{Status: 403}, 403},
		"rollup_error":        {fault.Action{Status: 500}, 500},
		"channel_not_found":   {fault.Action{Status: 404, Body: "channel_not_found"}, 404},
		`{"retry_after":30,"ok":false,"error":"rate_limited"}`: {fault.Action{RetryAfter: "30"}, 429},
		`{"retry_after":1,"ok":false,"error":"rate_limited"}`:  {fault.Action{Status: 429}, 429},
	}
	for want, tt := range tests {
		srv := New(fault.Script{Rules: []fault.Rule{{Action: tt.action}}})
		got := post(t, srv, "POST", hook, "application/json", `{"text":"hi"}`)
		if got.Code != tt.status || got.Body.String() != want {
			t.Errorf("got %d %q, want %d %q", got.Code, got.Body, tt.status, want)
		}
		if got.Header().Get("Retry-After") != tt.action.RetryAfter {
			t.Errorf("%s: Retry-After %q", want, got.Header().Get("Retry-After"))
		}
	}
}

func TestTheHookIsRedacted(t *testing.T) {
	srv := New(fault.Script{})
	post(t, srv, "POST", hook, "application/json", `{"text":"hi"}`)
	post(t, srv, "POST", "/odd/s3cret/path", "application/json", `{"text":"hi"}`)
	want := "/services/T00000000/B00000000/" + fault.HashSecret("s3cretXXXXXXXXXX")
	for _, path := range []string{"/_messages", "/_calls"} {
		body := post(t, srv, "GET", path, "", "").Body.String()
		if strings.Contains(body, "s3cret") {
			t.Errorf("%s shows the hook: %s", path, body)
		}
		if !strings.Contains(body, want) {
			t.Errorf("%s does not hold %s: %s", path, want, body)
		}
	}
}
