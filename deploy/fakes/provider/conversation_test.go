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

// A vendor takes back its own thinking, and refuses that of another vendor or account.
func TestThinkingComesBack(t *testing.T) {
	answer := json.RawMessage(`{"thinking":"let me see","text":"hm"}`)
	srv := New(fault.Script{Rules: []fault.Rule{{Action: fault.Action{Answer: answer}}}})
	var own struct{ Content []thinkingBlock }
	made := do(t, srv, request{"POST", "/v1/messages", `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"go"}]}`, anthropic})
	if err := json.Unmarshal(made.Body.Bytes(), &own); err != nil || len(own.Content) != 2 {
		t.Fatalf("answer %s, error %v, want thinking and text", made.Body, err)
	}
	var sealed struct{ Output []reasoningItem }
	made = do(t, srv, request{"POST", "/v1/responses", `{"model":"m","include":["reasoning.encrypted_content"],"input":"go"}`, bearer})
	if err := json.Unmarshal(made.Body.Bytes(), &sealed); err != nil || len(sealed.Output) != 2 {
		t.Fatalf("answer %s, error %v, want reasoning and a message", made.Body, err)
	}
	back := func(block any) string {
		return `{"model":"m","max_tokens":100,"messages":[{"role":"assistant","content":[` + string(encode(block)) + `]},{"role":"user","content":"go on"}]}`
	}
	again := func(item any) string {
		return `{"model":"m","input":[` + string(encode(item)) + `,{"role":"user","content":"go on"}]}`
	}
	forged, other, bare := own.Content[0], map[string]string{"Authorization": "Bearer another"}, sealed.Output[0]
	forged.Signature, bare.Encrypted = "of another", ""
	for _, tt := range []struct {
		name   string
		req    request
		status int
		want   string
	}{
		{"own signature", request{"POST", "/v1/messages", back(own.Content[0]), anthropic}, 200, ""},
		{"another's signature", request{"POST", "/v1/messages", back(forged), anthropic}, 400, "messages.0.content: Invalid `signature`"},
		{"own seal", request{"POST", "/v1/responses", again(sealed.Output[0]), bearer}, 200, ""},
		{"another account's seal", request{"POST", "/v1/responses", again(sealed.Output[0]), other}, 400, "could not be verified"},
		{"without the content", request{"POST", "/v1/responses", again(bare), bearer}, 400, "not persisted"},
	} {
		if got := do(t, srv, tt.req); got.Code != tt.status || !strings.Contains(got.Body.String(), tt.want) {
			t.Errorf("%s: %d %s, want %d with %q", tt.name, got.Code, got.Body, tt.status, tt.want)
		}
	}
}
