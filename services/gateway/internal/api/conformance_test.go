package api_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/platform/apierr"
)

func user(text string) []*gatewayv1.ChatMessage {
	content, _ := json.Marshal(text)
	return []*gatewayv1.ChatMessage{{Role: "user", Content: content}}
}

// asked is a request in the form of both faces.
type asked struct {
	name string
	body string // without stream
	grpc *gatewayv1.LlmRequest
}

func requests() []asked {
	tools := []*gatewayv1.Tool{{Function: &gatewayv1.ToolFunction{Name: "f", Parameters: []byte(`{"type":"object","required":["a"]}`), Strict: new(true)}}}
	return []asked{
		{"plain", `{"model":"first/ok",` + messages + `}`, &gatewayv1.LlmRequest{Model: "first/ok", Messages: user("hi")}},
		{"failover", `{"model":"first/down","optimization_goal":"quality",` + messages + `}`, &gatewayv1.LlmRequest{Model: "first/down", OptimizationGoal: "quality", Messages: user("hi")}},
		{"no substitution", `{"model":"first/ok","allow_substitution":false,` + messages + `}`, &gatewayv1.LlmRequest{Model: "first/ok", AllowSubstitution: new(false), Messages: user("hi")}},
		{
			"tools",
			`{"model":"first/tools","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","required":["a"]},"strict":true}}],"tool_choice":{"type":"function","function":{"name":"f"}},` + messages + `}`,
			&gatewayv1.LlmRequest{Model: "first/tools", Tools: tools, ToolChoice: []byte(`{"type":"function","function":{"name":"f"}}`), Messages: user("hi")},
		},
		{
			"every setting",
			`{"model":"ok","provider":"first","max_tokens":5,"temperature":0,"top_p":0.5,"stop":["x"],"seed":7,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"b":1,"a":2}}},"metadata":{"k":"v"},"cache":"bypass","data_classification":"internal","locale":"de","language_mode":"force","byok":{"mode":"prefer"},"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"what"},{"type":"image_url","image_url":{"url":"https://x.example/a.png","detail":"low"}}],"name":"ann"},{"role":"assistant","content":null,"tool_calls":[{"id":"c0","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"z":1}}]},{"role":"tool","tool_call_id":"c0","content":"done"}]}`,
			&gatewayv1.LlmRequest{
				Model: "ok", Provider: "first", MaxTokens: new(int32(5)), Temperature: new(0.0), TopP: new(0.5), Stop: []string{"x"}, Seed: new(int32(7)),
				ResponseFormat: []byte(`{"type":"json_schema","json_schema":{"name":"n","schema":{"b":1,"a":2}}}`), Metadata: map[string]string{"k": "v"},
				Cache: "bypass", DataClassification: "internal", Locale: "de", LanguageMode: "force", Byok: &gatewayv1.ByokReference{Mode: "prefer"},
				Messages: []*gatewayv1.ChatMessage{
					{Role: "system", Content: []byte(`"s"`)},
					{Role: "user", Name: "ann", Content: []byte(`[{"type":"text","text":"what"},{"type":"image_url","image_url":{"url":"https://x.example/a.png","detail":"low"}}]`)},
					{Role: "assistant", ToolCalls: []*gatewayv1.ToolCall{{Id: "c0", Type: "function", Function: &gatewayv1.FunctionCall{Name: "f", Arguments: "{}"}, ExtraContent: []byte(`{"z":1}`)}}},
					{Role: "tool", ToolCallId: "c0", Content: []byte(`"done"`)},
				},
			},
		},
	}
}

// Both faces send the vendor the same and answer the same.
func TestFacesAgree(t *testing.T) {
	b := setup(t)
	client, md := b.client()
	for _, c := range requests() {
		t.Run(c.name, func(t *testing.T) {
			overHTTP := b.chat(t, c.body)
			sent := b.vendor.last()
			if overHTTP.status != 200 {
				t.Fatal(overHTTP.body)
			}
			var header metadata.MD
			reply, err := client.Chat(metadata.NewOutgoingContext(t.Context(), md), c.grpc, grpc.Header(&header))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sent, b.vendor.last()); diff != "" {
				t.Errorf("sent to the vendor (-http +grpc):\n%s", diff)
			}
			if diff := cmp.Diff(object(t, overHTTP.body), message(t, reply)); diff != "" {
				t.Errorf("answer (-http +grpc):\n%s", diff)
			}
			for _, name := range []string{"X-Switchyard-Attempts", "X-Switchyard-Provider", "X-Switchyard-Model", "X-Request-Id"} {
				if got := strings.Join(header.Get(name), ""); got != overHTTP.header.Get(name) {
					t.Errorf("%s = %q over gRPC, %q over HTTP", name, got, overHTTP.header.Get(name))
				}
			}
		})
		t.Run(c.name+"/stream", func(t *testing.T) {
			overHTTP := b.chat(t, `{"stream":true,`+c.body[1:])
			stream, err := client.ChatStream(metadata.NewOutgoingContext(t.Context(), md), c.grpc)
			if err != nil {
				t.Fatal(err)
			}
			var got []map[string]any
			for {
				chunk, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, message(t, chunk))
			}
			var want []map[string]any
			for line := range strings.Lines(overHTTP.body) {
				if text, ok := strings.CutPrefix(line, "data: {"); ok {
					want = append(want, object(t, "{"+text))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || len(want) < 2 || !strings.HasSuffix(overHTTP.body, "data: [DONE]\n\n") {
				t.Errorf("%s\n(-http +grpc):\n%s", overHTTP.body, diff)
			}
		})
	}
}

// object reads JSON and leaves out what is null: protojson has no null for a list.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if m["tool_calls"] == nil {
		delete(m, "tool_calls")
	}
	return m
}

// message renders a message by the contract's own rules, with raw JSON inlined.
func message(t *testing.T, m proto.Message) map[string]any {
	t.Helper()
	_, isChunk := m.(*gatewayv1.LlmChunk)
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: !isChunk}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := object(t, string(text))
	if calls, _ := out["tool_calls"].([]any); len(calls) == 0 {
		delete(out, "tool_calls")
	} else {
		for _, c := range calls {
			call, _ := c.(map[string]any)
			if raw, ok := call["extra_content"].(string); ok {
				var bytes []byte
				if err := json.Unmarshal([]byte(`"`+raw+`"`), &bytes); err != nil {
					t.Fatal(err)
				}
				call["extra_content"] = object(t, string(bytes))
			}
			if isChunk && call["index"] == nil {
				call["index"] = 0.0
			}
		}
	}
	if usage, ok := out["usage"].(map[string]any); ok && isChunk {
		for _, name := range []string{"estimated", "substituted", "cache_hit"} {
			if usage[name] == nil {
				usage[name] = false
			}
		}
		if usage["cost_cents"] == nil {
			usage["cost_cents"] = 0.0
		}
	}
	return out
}

// Both faces refuse the same, with the same words. {M} stands for messages that
// are fine.
func TestFacesRefuseTheSame(t *testing.T) {
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
	tool := func(parameters string) []*gatewayv1.Tool {
		return []*gatewayv1.Tool{{Function: &gatewayv1.ToolFunction{Name: "f", Parameters: []byte(parameters)}}}
	}
	cases := []struct {
		body   string
		grpc   *gatewayv1.LlmRequest
		status int
		text   string
	}{
		{`{"model":"first/ok"}`, &gatewayv1.LlmRequest{Model: "first/ok"}, 400, "messages:"},
		{`{"messages":[{"role":"robot","content":"x"}]}`, say("robot", `"x"`), 400, "messages[0].role"},
		{`{"messages":[{"role":"user"}]}`, say("user", ""), 400, "messages[0].content: is required"},
		{`{"messages":[{"role":"user","content":null}]}`, say("user", "null"), 400, "messages[0].content: is required"},
		{`{"messages":[{"role":"user","content":7}]}`, say("user", "7"), 400, "messages[0].content: must be a string or an array"},
		{`{"messages":[{"role":"user","content":[]}]}`, say("user", "[]"), 400, "messages[0].content: must not be empty"},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a","colour":1}]}]}`, say("user", `[{"type":"text","text":"a","colour":1}]`), 400, `messages[0].content: unknown field "colour"`},
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
		{`{"response_format":{"type":5},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.ResponseFormat = []byte(`{"type":5}`) }), 400, "response_format.type: must not be this number"},
		{`{"organization_id":"a b",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.OrganizationId = "a b" }), 400, "organization_id: must be printable"},
		{`{"model":"a b","messages":[{"role":"user","content":"x"}]}`, with(func(m *gatewayv1.LlmRequest) { m.Model = "a b" }), 400, "model: must be printable"},
		{`{"provider":"a b",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Provider = "a b" }), 400, "provider"},
		{`{"byok":{"provider":"a b"},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Byok = &gatewayv1.ByokReference{Provider: "a b"} }), 400, "byok.provider"},
		{`{"data_classification":"-",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.DataClassification = "-" }), 400, "data_classification"},
		{`{"locale":"fr","language_mode":"must",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Locale, m.LanguageMode = "fr", "must" }), 400, "language_mode"},
		{`{"locale":"fr","locale_mode":"must",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Locale, m.LocaleMode = "fr", "must" }), 400, "locale_mode"},
		{`{"max_tokens":10000001,{M}}`, with(func(m *gatewayv1.LlmRequest) { m.MaxTokens = new(int32(10_000_001)) }), 400, "max_tokens"},
		{`{"stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"],{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Stop = strings.Split(strings.Repeat("x", 17), "") }), 400, "stop"},
		{`{"metadata":{"":"v"},{M}}`, with(func(m *gatewayv1.LlmRequest) { m.Metadata = map[string]string{"": "v"} }), 400, "metadata"},
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
		{`{"run_id":"a b",{M}}`, with(func(m *gatewayv1.LlmRequest) { m.RunId = "a b" }), 400, "run_id: must be printable"},
	}
	b := setup(t)
	client, md := b.client()
	for _, c := range cases {
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
			if e := apierr.From(err); e == nil || e.Kind.HTTPStatus() != c.status || e.Text != document.Reason || e.Reason != document.Error || e.ErrorClass() != document.ErrorClass {
				t.Errorf("grpc: %+v, http: %s", e, got.body)
			}
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

// What only JSON can get wrong.
func TestBadJSON(t *testing.T) {
	b := setup(t)
	for body, text := range map[string]string{
		``:                                      "messages: is required",
		`{`:                                     "body: invalid JSON",
		`[]`:                                    "body: must be a JSON object",
		`{"a":1}`:                               "a: unknown field",
		`{"MODEL":"x"}`:                         "MODEL: unknown field",
		`{"model":"x","model":"y"}`:             "body: duplicate field",
		`{"byok":{"api_key":"` + canary + `"}}`: "byok.api_key: unknown field",
		`{"messages":[{"role":"user","contents":"x"}]}`: "messages[0].contents: unknown field",
		`{"max_tokens":true}`:                           "max_tokens: must be an integer",
		`{"max_tokens":99999999999}`:                    "max_tokens: must be an integer from",
		`{"messages":{}}`:                               "messages: must be an array",
		`{"messages":[{"role":1}]}`:                     "messages[0].role: must be a string",
		`{"stream":"yes"}`:                              "stream: must be true or false",
		`{"organization_id":1}`:                         "organization_id: must be a string",
		`{"allow_substitution":"no"}`:                   "allow_substitution: must be true or false",
		`{"seed":"x"}`:                                  "seed: must be an integer",
		`{"temperature":"hot"}`:                         "temperature: must be a number",
		`{"top_p":[]}`:                                  "top_p: must be a number",
		`{"byok":"mine"}`:                               "byok: must be an object",
		`{"metadata":{"k":1}}`:                          "metadata",
		`{"locale":7}`:                                  "locale: must be a string",
		`{"optimization_goal":7}`:                       "optimization_goal: must be a string",
		`{"data_classification":7}`:                     "data_classification: must be a string",
		`{"tools":{}}`:                                  "tools: must be an array",
		`{"stop":"END"}`:                                "stop: must be an array",
		`{"tools":[{"function":{"name":1}}]}`:           "tools[0].function.name: must be a string",
		`{} {}`:                                         "body: invalid JSON at byte 4",
	} {
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
