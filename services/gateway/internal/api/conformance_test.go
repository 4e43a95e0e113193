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

// Both faces send the vendor the same request and return the same answer.
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

// object decodes JSON and removes nulls: protojson has no null for a list.
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

// message encodes a message by the contract's own rules, with raw JSON inlined.
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
	for _, name := range []string{"citations", "images"} { // The JSON face omits them if empty.
		if list, _ := out[name].([]any); len(list) == 0 {
			delete(out, name)
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
	if usage, ok := out["usage"].(map[string]any); ok && usage["requested_goal"] == nil {
		usage["requested_goal"] = nil // Absent over gRPC.
	}
	return out
}
