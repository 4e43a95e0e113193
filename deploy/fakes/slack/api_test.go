package slack

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/deploy/fakes/fakestest"
	"switchyard.dev/deploy/fakes/fault"
)

// method calls a method of the Web API.
func method(t *testing.T, srv *Server, name, token, body string) (status int, answer struct {
	OK                 bool
	Error, Channel, TS string
},
) {
	t.Helper()
	header := map[string]string{"Content-Type": "application/json; charset=utf-8"}
	if token != "" {
		header["Authorization"] = "Bearer " + token
	}
	got := fakestest.Send(t, srv, "POST", "/api/"+name, body, header)
	if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, got.Body)
	}
	return got.Code, answer
}

const buttons = `[{"type":"section","text":{"type":"mrkdwn","text":"x"}},{"type":"actions","elements":[
	{"type":"button","action_id":"a","text":{"type":"plain_text","text":"A"},"style":"danger","url":"https://a.example","value":"v"}]}]`

func TestPostAndUpdate(t *testing.T) {
	srv := New(fault.Script{})
	_, posted := method(t, srv, "chat.postMessage", "xoxb-1", `{"channel":"U0000001","text":"hi","blocks":`+buttons+`}`)
	if !posted.OK || posted.Channel != "D0000001" || posted.TS == "" {
		t.Fatalf("posted %+v", posted)
	}
	place := `"channel":"` + posted.Channel + `","ts":"` + posted.TS + `"`
	if _, changed := method(t, srv, "chat.update", "xoxb-1", `{`+place+`,"text":"bye","blocks":[]}`); !changed.OK || changed.TS != posted.TS {
		t.Errorf("changed %+v", changed)
	}
	last := srv.Messages(1)[0]
	if last.Method != "chat.update" || last.TS != posted.TS || !strings.Contains(string(last.Payload), "bye") {
		t.Errorf("recorded %+v", last)
	}
	if _, other := method(t, srv, "chat.update", "xoxb-2", `{`+place+`,"text":"mine"}`); other.Error != "cant_update_message" {
		t.Errorf("of another app: %+v", other)
	}
}

func TestMethodsRefuse(t *testing.T) {
	const ok = `{"channel":"C0000001","text":"hi"}`
	long := `{"channel":"C0000001","ts":"1.1","text":"` + strings.Repeat("x", 4001) + `"}`
	tests := map[string]struct{ name, token, body, want string }{
		"no token":           {"chat.postMessage", "", ok, "not_authed"},
		"another token":      {"chat.postMessage", "xapp-1", ok, "invalid_auth"},
		"another method":     {"chat.delete", "xoxb-1", ok, "unknown_method"},
		"no JSON":            {"chat.postMessage", "xoxb-1", `text=hi`, "invalid_payload"},
		"a name":             {"chat.postMessage", "xoxb-1", `{"channel":"#general","text":"hi"}`, "channel_not_found"},
		"no text":            {"chat.postMessage", "xoxb-1", `{"channel":"C0000001"}`, "no_text"},
		"no such message":    {"chat.update", "xoxb-1", `{"channel":"C0000001","ts":"1.1","text":"hi"}`, "message_not_found"},
		"nor a long one":     {"chat.update", "xoxb-1", long, "message_not_found"},
		"a style":            {"chat.postMessage", "xoxb-1", `{"channel":"C0000001","text":"x","blocks":` + strings.Replace(buttons, "danger", "red", 1) + `}`, "invalid_blocks"},
		"a label of markup":  {"chat.postMessage", "xoxb-1", `{"channel":"C0000001","text":"x","blocks":` + strings.Replace(buttons, "plain_text", "mrkdwn", 1) + `}`, "invalid_blocks"},
		"an empty section":   {"chat.postMessage", "xoxb-1", `{"channel":"C0000001","text":"x","blocks":` + strings.Replace(buttons, `"text":"x"`, `"text":""`, 1) + `}`, "invalid_blocks"},
		"a section too long": {"chat.postMessage", "xoxb-1", `{"channel":"C0000001","text":"x","blocks":` + strings.Replace(buttons, `"text":"x"`, `"text":"`+strings.Repeat("x", 3001)+`"`, 1) + `}`, "invalid_blocks"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := New(fault.Script{})
			if status, got := method(t, srv, tt.name, tt.token, tt.body); status != 200 || got.OK || got.Error != tt.want || len(srv.Messages(1)) != 0 {
				t.Errorf("got %d %+v, want %s", status, got, tt.want)
			}
		})
	}
}

func TestMethodsFollowScripts(t *testing.T) {
	tests := map[string]struct {
		action fault.Action
		status int
		want   string
	}{
		"a rate":   {fault.Action{RetryAfter: "30"}, 429, "ratelimited"},
		"away":     {fault.Action{Status: 503}, 503, "service_unavailable"},
		"an error": {fault.Action{Status: 200, Body: `{"ok":false,"error":"is_archived"}`}, 200, "is_archived"},
		"broken":   {fault.Action{Status: 500}, 500, "fatal_error"},
		"nowhere":  {fault.Action{Status: 404}, 404, "fatal_error"},
	}
	for name, tt := range tests {
		srv := New(fault.Script{Rules: []fault.Rule{{Match: fault.Match{Path: "/api/chat.*"}, Action: tt.action}}})
		if status, got := method(t, srv, "chat.postMessage", "xoxb-1", `{"channel":"C0000001","text":"hi"}`); status != tt.status || got.Error != tt.want {
			t.Errorf("%s: got %d %+v", name, status, got)
		}
	}
}
