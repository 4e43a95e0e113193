package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func newServer(tb testing.TB, name, base string) *Provider {
	tb.Helper()
	p, err := New(provider.Settings{Name: name, BaseURL: base, Transport: http.DefaultTransport})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Servers differ in the name of the output limit, in stream options and in the IDs of calls that they accept.
func TestEncodeForServers(t *testing.T) {
	chat := &provider.Chat{Model: "m", MaxTokens: 5, Messages: []provider.Message{
		{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "call_0123456789", Name: "f"}}},
		{Role: provider.RoleTool, ToolCallID: "call_0123456789", Content: []provider.Part{{Text: "<done> & \xff"}}},
	}}
	const messages = `[{"role":"assistant","content":null,"tool_calls":[{"id":"ID","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","content":"<done> & \ufffd","tool_call_id":"ID"}]`
	for _, c := range []struct{ name, base, id, want string }{
		{
			"openai", "https://api.openai.com", "call_0123456789",
			`{"model":"m","messages":` + messages + `,"max_completion_tokens":5,"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}}`,
		},
		{"mistral", "https://api.mistral.ai", shortID("call_0123456789"), `{"model":"m","messages":` + messages + `,"max_tokens":5,"stream":true}`},
		{
			"other", "http://127.0.0.1:8000", "call_0123456789",
			`{"model":"m","messages":` + messages + `,"max_tokens":5,"stream":true,"stream_options":{"include_usage":true}}`,
		},
	} {
		got, err := newServer(t, c.name, c.base).encode(chat, true)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(strings.ReplaceAll(c.want, "ID", c.id), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// A number that JSON can't represent is refused by the gateway, and not sent.
func TestEncodeRefuses(t *testing.T) {
	p := newServer(t, "openai", "https://api.openai.com")
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if body, err := p.encode(&provider.Chat{Model: "m", Temperature: &value}, false); err == nil {
			t.Errorf("%v: sent as %s", value, body)
		}
	}
	broken := &provider.Chat{Model: "m", Tools: []provider.Tool{{Name: "f", Parameters: json.RawMessage(`{"type":`)}}}
	if body, err := p.encode(broken, false); err == nil {
		t.Errorf("broken parameters: sent as %s", body)
	}
}

// OpenAI answers only with objects, enforced or not: another candidate serves any other schema.
func TestFormatsOfAnObject(t *testing.T) {
	for _, c := range []struct {
		base, schema string
		// loose and strict report whether the schema is refused as one or the other.
		loose, strict bool
	}{
		{"https://api.openai.com", `{"type":"object","properties":{},"additionalProperties":false}`, false, false},
		{"https://api.openai.com", `{"type":"array","items":{"type":"string"}}`, true, true},
		{"https://api.openai.com", `{"properties":{}}`, true, true},
		{"https://api.openai.com", `{"type":["object","null"],"properties":{}}`, true, true},
		{"https://api.openai.com", `{"type":"object","anyOf":[{"type":"object","properties":{}}]}`, true, true},
		{"https://api.openai.com", `{"type":"object","properties":{},"oneOf":[{"type":"object","properties":{}}]}`, false, true},
		{"https://api.openai.com", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{}}}}`, true, true},
		{"https://api.openai.com", `null`, false, false},
		{"https://me.openai.azure.com/openai/v1", `{"type":"array","items":{"type":"string"}}`, true, true},
		{"http://127.0.0.1:8000", `{"type":"array","items":{"type":"string"}}`, false, false},
	} {
		for strict, want := range map[bool]bool{false: c.loose, true: c.strict} {
			chat := &provider.Chat{Model: "m", ResponseFormat: fmt.Appendf(nil, `{"type":"json_schema","json_schema":{"name":"n","strict":%t,"schema":%s}}`, strict, c.schema)}
			_, err := newServer(t, "server", c.base).encode(chat, false)
			e, ok := errors.AsType[*provider.Error](err)
			refused := ok && e.Unsupported && strings.HasPrefix(e.Text, "response_format.json_schema.schema: ")
			if refused != want || !refused && err != nil {
				t.Errorf("%s, %s, strict %t: %v, want a refusal: %t", c.base, c.schema, strict, err, want)
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	p := newServer(b, "load", "http://127.0.0.1:8000")
	text := strings.Repeat("How long is the train to the coast, and how many carriages does it have? ", 10)
	chat := &provider.Chat{Model: "load", MaxTokens: 500, Messages: []provider.Message{
		{Role: provider.RoleSystem, Content: []provider.Part{{Text: "Be brief."}}}, {Role: provider.RoleUser, Content: []provider.Part{{Text: text}}},
	}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.encode(chat, false); err != nil {
			b.Fatal(err)
		}
	}
}
