package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/platform/apierr"
)

type chatRefusal struct {
	body   string
	grpc   *gatewayv1.LlmRequest
	status int
	text   string
}

// chatRefusals are requests with one error each, in the form of both faces. {M} stands for valid messages.
func chatRefusals() []chatRefusal {
	fine := user("hi")
	with := func(change func(*gatewayv1.LlmRequest)) *gatewayv1.LlmRequest {
		m := &gatewayv1.LlmRequest{Model: "first/ok", Messages: fine}
		change(m)
		return m
	}
	say := func(role, content string) *gatewayv1.LlmRequest {
		m := &gatewayv1.ChatMessage{Role: role}
		if content != "" {
			m.Content = []byte(content)
		}
		return &gatewayv1.LlmRequest{Model: "first/ok", Messages: []*gatewayv1.ChatMessage{m}}
	}
	called := func(change func(*gatewayv1.ToolCall)) []*gatewayv1.ChatMessage {
		call := &gatewayv1.ToolCall{Id: "c", Function: &gatewayv1.FunctionCall{Name: "f"}}
		change(call)
		return []*gatewayv1.ChatMessage{{Role: "assistant", ToolCalls: []*gatewayv1.ToolCall{call}}}
	}
	tool := func(parameters string) []*gatewayv1.Tool {
		return []*gatewayv1.Tool{{Function: &gatewayv1.ToolFunction{Name: "f", Parameters: []byte(parameters)}}}
	}
	return []chatRefusal{
		{`{"model":"first/ok"}`, &gatewayv1.LlmRequest{Model: "first/ok"}, 400, "messages:"},
		{`{"messages":[{"role":"robot","content":"x"}]}`, say("robot", `"x"`), 400, "messages[0].role"},
		{`{"messages":[{"role":"user"}]}`, say("user", ""), 400, "messages[0].content: is required"},
		{`{"messages":[{"role":"user","content":null}]}`, say("user", "null"), 400, "messages[0].content: is required"},
		{`{"messages":[{"role":"user","content":7}]}`, say("user", "7"), 400, "messages[0].content: must be a string or an array"},
		{`{"messages":[{"role":"user","content":[]}]}`, say("user", "[]"), 400, "messages[0].content: must not be empty"},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a","colour":1}]}]}`, say("user", `[{"type":"text","text":"a","colour":1}]`), 400, `messages[0].content: unknown field "colour"; known fields: type, text, image_url.url, image_url.detail`},
		{`{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, say("user", `[{"type":"text"}]`), 400, "messages[0].content[0]: a text part"},
		{`{"messages":[{"role":"user","content":[{"type":"audio"}]}]}`, say("user", `[{"type":"audio"}]`), 400, "messages[0].content[0].type"},
		{`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, say("user", `[{"type":"image_url"}]`), 400, "messages[0].content[0]: an image_url part"},
		{`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]}`, say("user", `[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]`), 400, "image_url.url"},
		{`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x","detail":"max"}}]}]}`, say("user", `[{"type":"image_url","image_url":{"url":"https://x","detail":"max"}}]`), 400, "image_url.detail"},
		{`{"messages":[{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]}`, say("system", `[{"type":"image_url","image_url":{"url":"https://x"}}]`), 400, "user messages only"},
		{`{"messages":[{"role":"tool","content":"x"}]}`, say("tool", `"x"`), 400, "messages[0].tool_call_id: is required"},
		{`{"optimization_goal":"fun",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.OptimizationGoal = "fun" }), 400, "optimization_goal"},
		{`{"temperature":3,{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Temperature = new(3.0) }), 400, "temperature"},
		{`{"top_p":-1,{M}}`, with(func(m *gatewayv1.LlmRequest) { m.TopP = new(-1.0) }), 400, "top_p"},
		{`{"max_tokens":0,{M}}`, with(func(m *gatewayv1.LlmRequest) { m.MaxTokens = new(int32(0)) }), 400, "max_tokens"},
		{`{"stop":[""],{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Stop = []string{""} }), 400, "stop[0]"},
		{`{"locale":"f","messages":[{"role":"user","content":"x"}]}`, with(func(m *gatewayv1.LlmRequest) { m.Locale = "f" }), 400, "locale"},
		{`{"language_mode":"force",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.LanguageMode = "force" }), 400, "locale: is required"},
		{`{"locale":"fr","language_mode":"force","locale_mode":"auto",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Locale, m.LanguageMode, m.LocaleMode = "fr", "force", "auto" }), 400, "locale_mode: differs"},
		{`{"byok":{"mode":"maybe"},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Byok = &gatewayv1.ByokReference{Mode: "maybe"} }), 400, "byok.mode"},
		{`{"provider":"nobody-there",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Provider = "nobody-there" }), 400, `"nobody-there"`},
		{`{"model":"no-such","messages":[{"role":"user","content":"x"}]}`, with(func(m *gatewayv1.LlmRequest) { m.Model = "no-such" }), 404, `"no-such"`},
		{`{"tools":[{"function":{"name":"f","parameters":[]}}],{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Tools = tool("[]") }), 400, "tools[0].function.parameters"},
		{`{"tools":[{"type":"function"}],{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Tools = []*gatewayv1.Tool{{Type: "function"}} }), 400, "tools[0].function: is required"},
		{`{"tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}],{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Tools = append(tool(""), tool("")...) }), 400, "tools[1].function.name"},
		{`{"tool_choice":"required",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.ToolChoice = []byte(`"required"`) }), 400, "tool_choice: needs tools"},
		{`{"tools":[{"function":{"name":"f"}}],"tool_choice":"perhaps",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Tools, m.ToolChoice = tool(""), []byte(`"perhaps"`) }), 400, "tool_choice: must be"},
		{`{"tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}},{M}}`, with(func(m *gatewayv1.LlmRequest) {
			m.Tools, m.ToolChoice = tool(""), []byte(`{"type":"function","function":{"name":"g"}}`)
		}), 400, "tool_choice.function.name"},
		{`{"response_format":{"type":"xml"},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.ResponseFormat = []byte(`{"type":"xml"}`) }), 400, "response_format"},
		{`{"response_format":{"type":"json_schema"},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.ResponseFormat = []byte(`{"type":"json_schema"}`) }), 400, "response_format.json_schema"},
		{`{"response_format":{"type":5},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.ResponseFormat = []byte(`{"type":5}`) }), 400, "response_format.type: has the wrong JSON type: number"},
		{`{"organization_id":"a b",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.OrganizationId = "a b" }), 400, "organization_id: must be printable"},
		{`{"model":"a b","messages":[{"role":"user","content":"x"}]}`, with(func(m *gatewayv1.LlmRequest) { m.Model = "a b" }), 400, "model: must be printable"},
		{`{"provider":"a b",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Provider = "a b" }), 400, "provider"},
		{`{"byok":{"provider":"a b"},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Byok = &gatewayv1.ByokReference{Provider: "a b"} }), 400, "byok.provider"},
		{`{"data_classification":"-",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.DataClassification = "-" }), 400, "data_classification"},
		{`{"locale":"fr","language_mode":"must",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Locale, m.LanguageMode = "fr", "must" }), 400, "language_mode"},
		{`{"locale":"fr","locale_mode":"must",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Locale, m.LocaleMode = "fr", "must" }), 400, "locale_mode"},
		{`{"reasoning":{"effort":"hard"},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Reasoning = &gatewayv1.Reasoning{Effort: "hard"} }), 400, "reasoning.effort"},
		{`{"reasoning":{"budget_tokens":0},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Reasoning = &gatewayv1.Reasoning{BudgetTokens: new(int32(0))} }), 400, "reasoning.budget_tokens"},
		{`{"reasoning":{"summary":"long"},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Reasoning = &gatewayv1.Reasoning{Summary: "long"} }), 400, "reasoning.summary"},
		{`{"max_tokens":10000001,{M}}`, with(func(m *gatewayv1.LlmRequest) { m.MaxTokens = new(int32(10_000_001)) }), 400, "max_tokens"},
		{`{"stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"],{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Stop = strings.Split(strings.Repeat("x", 17), "") }), 400, "stop"},
		{`{"metadata":{"":"v"},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Metadata = map[string]string{"": "v"} }), 400, "metadata"},
		{`{"tags":{"Team":"v"},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Tags = map[string]string{"Team": "v"} }), 400, "tags: a name must"},
		{`{"metadata":{"k":"` + strings.Repeat("v", 513) + `"},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Metadata = map[string]string{"k": strings.Repeat("v", 513)} }), 400, "metadata[k]"},
		{`{"cache":"maybe",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Cache = "maybe" }), 400, "cache"},
		{`{"approval_ref":"` + strings.Repeat("r", 129) + `",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.ApprovalRef = strings.Repeat("r", 129) }), 400, "approval_ref"},
		{`{"tools":[{"type":"web","function":{"name":"f"}}],{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Tools = tool(""); m.Tools[0].Type = "web" }), 400, "tools[0].type"},
		{`{"tools":[{"function":{"name":"f g"}}],{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Tools = tool(""); m.Tools[0].Function.Name = "f g" }), 400, "tools[0].function.name"},
		{`{"tools":[{"function":{"name":"f","description":"` + strings.Repeat("d", 32769) + `"}}],{M}}`, with(func(m *gatewayv1.LlmRequest) {
			m.Tools = tool("")
			m.Tools[0].Function.Description = strings.Repeat("d", 32769)
		}), 400, "tools[0].function.description"},
		{`{"messages":[{"role":"user","content":"x","name":"` + strings.Repeat("n", 129) + `"}]}`, with(func(m *gatewayv1.LlmRequest) { m.Messages = user("x"); m.Messages[0].Name = strings.Repeat("n", 129) }), 400, "messages[0].name"},
		{`{"messages":[{"role":"assistant","tool_calls":[{"id":"","function":{"name":"f"}}]}]}`, with(func(m *gatewayv1.LlmRequest) {
			m.Messages = []*gatewayv1.ChatMessage{{Role: "assistant", ToolCalls: []*gatewayv1.ToolCall{{Function: &gatewayv1.FunctionCall{Name: "f"}}}}}
		}), 400, "messages[0].tool_calls[0].id"},
		{`{"messages":[{"role":"assistant","tool_calls":[{"id":"c"}]}]}`, with(func(m *gatewayv1.LlmRequest) {
			m.Messages = []*gatewayv1.ChatMessage{{Role: "assistant", ToolCalls: []*gatewayv1.ToolCall{{Id: "c"}}}}
		}), 400, "messages[0].tool_calls[0].function: is required"},
		{`{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":""}}]}]}`, with(func(m *gatewayv1.LlmRequest) {
			m.Messages = []*gatewayv1.ChatMessage{{Role: "assistant", ToolCalls: []*gatewayv1.ToolCall{{Id: "c", Function: &gatewayv1.FunctionCall{}}}}}
		}), 400, "messages[0].tool_calls[0].function.name"},
		{`{"messages":[{"role":"user","content":"x","tool_calls":[{"id":"c","function":{"name":"f"}}]}]}`, with(func(m *gatewayv1.LlmRequest) {
			m.Messages = user("x")
			m.Messages[0].ToolCalls = called(func(*gatewayv1.ToolCall) {})[0].ToolCalls
		}), 400, "messages[0].tool_calls: are for assistant messages only"},
		{`{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"web","function":{"name":"f"}}]}]}`, with(func(m *gatewayv1.LlmRequest) {
			m.Messages = called(func(c *gatewayv1.ToolCall) { c.Type = "web" })
		}), 400, "messages[0].tool_calls[0].type"},
		{`{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"},"extra_content":[7]}]}]}`, with(func(m *gatewayv1.LlmRequest) {
			m.Messages = called(func(c *gatewayv1.ToolCall) { c.ExtraContent = []byte("[7]") })
		}), 400, "messages[0].tool_calls[0].extra_content: must be an object"},
		{`{"run_id":"a b",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.RunId = "a b" }), 400, "run_id: must be printable"},
	}
}

// Both faces refuse the same requests with the same texts.
func TestFacesRefuseTheSame(t *testing.T) {
	b := setup(t)
	client, md := b.client()
	for _, c := range chatRefusals() {
		t.Run(c.text, func(t *testing.T) {
			body := strings.ReplaceAll(c.body, "{M}", messages)
			if !strings.Contains(body, `"model"`) {
				body = `{"model":"first/ok",` + body[1:]
			}
			var document apierr.Document
			got := b.chat(t, body)
			if err := json.Unmarshal([]byte(got.body), &document); err != nil || got.status != c.status || !strings.Contains(document.Reason, c.text) {
				t.Errorf("http: %d %s, want %d with %q", got.status, got.body, c.status, c.text)
			}
			_, err := client.Chat(metadata.NewOutgoingContext(t.Context(), md), c.grpc)
			sameRefusal(t, err, c.status, document)
			stream, err := client.ChatStream(metadata.NewOutgoingContext(t.Context(), md), c.grpc)
			if err == nil {
				_, err = stream.Recv()
			}
			if e := apierr.From(err); e == nil || e.Text != document.Reason {
				t.Errorf("grpc stream: %+v, http: %s", e, got.body)
			}
		})
	}
	if b.vendor.last() != "" || b.rows(t, "true") != 0 {
		t.Error("a refused request reached the vendor or the ledger")
	}
}

// Errors that only JSON can have.
var badJSON = map[string]string{
	``:                                      "messages: is required",
	`{`:                                     "body: invalid JSON",
	`[]`:                                    "body: must be a JSON object",
	`{"a":1}`:                               "a: unknown field",
	`{"MODEL":"x"}`:                         "MODEL: unknown field",
	`{"model":"x","model":"y"}`:             "body: duplicate field",
	`{"byok":{"api_key":"` + canary + `"}}`: "byok.api_key: unknown field",
	`{"max_tokens":true}`:                   "max_tokens: must be an integer",
	`{"reasoning":7}`:                       "reasoning: ",
	`{"reasoning":{"required":1}}`:          "reasoning.required: ",
	`{"max_tokens":99999999999}`:            "max_tokens: must be an integer from",
	`{"messages":{}}`:                       "messages: must be an array",
	`{"messages":[{"role":1}]}`:             "messages[0].role: must be a string",
	`{"stream":"yes"}`:                      "stream: must be true or false",
	`{"organization_id":1}`:                 "organization_id: must be a string",
	`{"allow_substitution":"no"}`:           "allow_substitution: must be true or false",
	`{"seed":"x"}`:                          "seed: must be an integer",
	`{"temperature":"hot"}`:                 "temperature: must be a number",
	`{"top_p":[]}`:                          "top_p: must be a number",
	`{"byok":"mine"}`:                       "byok: must be an object",
	`{"metadata":{"k":1}}`:                  "metadata",
	`{"locale":7}`:                          "locale: must be a string",
	`{"optimization_goal":7}`:               "optimization_goal: must be a string",
	`{"data_classification":7}`:             "data_classification: must be a string",
	`{"tools":{}}`:                          "tools: must be an array",
	`{"stop":"END"}`:                        "stop: must be an array",
	`{"tools":[{"function":{"name":1}}]}`:   "tools[0].function.name: must be a string",

	`{"messages":[{"role":"user","contents":"x"}]}`:                                               "messages[0].contents: unknown field",
	`{"tools":[{"function":{"name":"f","strict":"yes"}}]}`:                                        "tools[0].function.strict: must be true or false",
	`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]}]}`: "messages[0].tool_calls[0].function.arguments: must be a string",
	`{} {}`: "body: invalid JSON at byte 4",
}

func TestBadJSON(t *testing.T) {
	b := setup(t)
	for body, text := range badJSON {
		got := b.chat(t, body)
		got.refused(t, 400, "invalid_request", text)
		if strings.Contains(got.body, canary) || strings.Contains(b.log.String(), canary) {
			t.Errorf("%s is repeated", canary)
		}
	}
	b.chat(t, `{"x":"`+strings.Repeat("a", 1<<20)+`"}`).refused(t, 413, "too_large", "body")
	client, md := b.client()
	_, err := client.Chat(metadata.NewOutgoingContext(t.Context(), md), &gatewayv1.LlmRequest{Model: "first/ok", Stream: true, Messages: user("x")})
	if e := apierr.From(err); e == nil || e.Kind.HTTPStatus() != 400 || !strings.Contains(e.Text, "ChatStream") {
		t.Errorf("stream over Chat: %v", err)
	}
}
