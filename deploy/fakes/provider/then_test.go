package provider

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/deploy/fakes/fault"
)

// The same rule leads a conversation of tools through each API, whole and streamed: it answers by the number of results.
func TestScriptOfAConversation(t *testing.T) {
	const (
		call = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"write","arguments":"{}"}}]}`
		use  = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"write","input":{}}]}`
		item = `{"type":"function_call","call_id":"a","name":"write","arguments":"{}"}`
	)
	apis := []struct {
		name, path, before, result string
		header                     map[string]string
	}{
		{
			"chat", "/v1/chat/completions", `"model":"m","messages":[{"role":"user","content":"go"}`,
			"," + call + `,{"role":"tool","tool_call_id":"a","content":"ok"}`, bearer,
		},
		{
			"responses", "/v1/responses", `"model":"m","input":[{"role":"user","content":"go"}`,
			"," + item + `,{"type":"function_call_output","call_id":"a","output":"ok"}`, bearer,
		},
		{
			"messages", "/v1/messages", `"model":"m","max_tokens":100,"messages":[{"role":"user","content":"go"}`,
			"," + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"ok"}]}`, anthropic,
		},
		{
			"gemini", "/v1beta/models/m:generateContent", `"contents":[{"role":"user","parts":[{"text":"go"}]}`,
			`,{"role":"user","parts":[{"functionResponse":{"name":"write","response":{"output":"ok"}}}]}`, goog,
		},
	}
	answer := json.RawMessage(`{"tool_calls":[{"name":"first"}],"then":[{"tool_calls":[{"name":"second"}]},{"text":"finished"}]}`)
	for _, api := range apis {
		for _, stream := range []string{"", `,"stream":true`} {
			srv := New(fault.Script{Rules: []fault.Rule{{Action: fault.Action{Answer: answer}}}})
			for results, want := range []string{`"first"`, `"second"`, "finished", "finished"} {
				body := "{" + api.before + strings.Repeat(api.result, results) + "]" + stream + "}"
				got := do(t, srv, request{"POST", api.path, body, api.header})
				if got.Code != 200 || !strings.Contains(got.Body.String(), want) {
					t.Errorf("%s%s after %d results: %d %s, want %s", api.name, stream, results, got.Code, got.Body, want)
				}
			}
		}
	}
}

func TestScriptOfAConversationHasOneLevel(t *testing.T) {
	srv := New(fault.Script{})
	err := srv.Append(fault.Script{Rules: []fault.Rule{{Action: fault.Action{Answer: json.RawMessage(`{"then":[{"text":"a","then":[{"text":"b"}]}]}`)}}}})
	if err == nil || !strings.Contains(err.Error(), "then of its own") {
		t.Errorf("error %v, want one about the inner then", err)
	}
}

// Messages of the system stand between the others only under the vendor's beta.
func TestSystemMessagesOfAnthropic(t *testing.T) {
	const body = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hello"},{"role":"system","content":"be kind"}]}`
	for beta, want := range map[string]int{"": 400, "effort-2025-11-24, mid-conversation-system-2026-04-07": 200} {
		header := map[string]string{"X-Api-Key": "s3cret", "Anthropic-Version": "2023-06-01", "Anthropic-Beta": beta}
		if got := do(t, New(fault.Script{}), request{"POST", "/v1/messages", body, header}); got.Code != want {
			t.Errorf("with the beta %q: %d %s, want %d", beta, got.Code, got.Body, want)
		}
	}
}
