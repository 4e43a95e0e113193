package anthropic_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dialect() providertest.Dialect {
	return providertest.Dialect{
		New: func(baseURL string, transport http.RoundTripper) (provider.ChatProvider, error) {
			return anthropic.New(provider.Settings{Name: "anthropic", BaseURL: baseURL, Transport: transport})
		},
		Terms: anthropic.Terms, Answers: answers(), Refusals: refusals(), StreamErrors: streamErrors(),
		Parts: func(texts, calls int) string {
			return `{"type":"message","content":[` + strings.Repeat(`{"type":"thinking","thinking":"so","signature":"c2ln"},{"type":"text","text":"a piece"},`, texts) +
				strings.Repeat(`{"type":"tool_use","id":"toolu_1","name":"f","input":{}},`, calls) + `{"type":"text","text":"."}],"stop_reason":"end_turn"}`
		},
		Native: providertest.Native{
			Dialect: anthropic.DialectName, Unknown: nativeUnknown,
			Body: `{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"hi"}],` + nativeUnknown + `,"stream":"perhaps"}`,
		},
	}
}

// nativeUnknown is a part of a native body that the gateway's fields don't hold.
const nativeUnknown = `"mcp_servers":[{"url":"https://a.example/?a=<b>&c"}],"thinking":{"type":"enabled", "budget_tokens":1.0e4}`

func TestConformance(t *testing.T) { providertest.Run(t, dialect()) }

// The dialect has no seed, which is left out.
func TestRequests(t *testing.T) {
	d := dialect()
	chats := providertest.Chats()
	single := *chats["choice_required"]
	single.ParallelTools = new(false)
	chats["single_tool_required"] = &single
	alone := *chats["tools"]
	alone.ParallelTools = new(false)
	chats["single_tool"] = &alone
	chats["json_loose"] = &provider.Chat{
		Model: "model", Messages: chats["text"].Messages,
		ResponseFormat: []byte(`{"type":"json_schema","json_schema":{"name":"n","description":"A city.","schema":{"type":"object"}}}`),
	}
	chats["thinking_back"] = comesBack()
	for name, chat := range chats {
		t.Run(name, func(t *testing.T) { d.Request(t, name, chat, false) })
	}
	t.Run("stream", func(t *testing.T) { d.Request(t, "stream", chats["text"], true) })
}

// comesBack is a conversation that continues after the answer "thinking_tools", with a call in it that another vendor
// made.
func comesBack() *provider.Chat {
	answer := answers()["thinking_tools"]
	foreign := provider.ToolCall{ID: "functions.get_time:0", Name: "get_time", Arguments: " ", Extra: []byte(`{"google":{"thought_signature":"c2ln"}}`)}
	turn := func(role provider.Role, text, call string) provider.Message {
		return provider.Message{Role: role, ToolCallID: call, Content: []provider.Part{{Text: text}}}
	}
	return &provider.Chat{Model: "model", Tools: providertest.Chats()["tools"].Tools, Messages: []provider.Message{
		turn(provider.RoleUser, "The time?", ""),
		{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{foreign}},
		turn(provider.RoleTool, "10:36", foreign.ID),
		turn(provider.RoleUser, "And the weather?", ""),
		{Role: provider.RoleAssistant, Content: []provider.Part{{Text: answer.Text}}, ToolCalls: answer.ToolCalls},
		turn(provider.RoleTool, "sunny", "toolu_1"),
		turn(provider.RoleTool, "10:37", "toolu_2"),
	}}
}

// sentTo records the URL of a request and returns an empty answer.
type sentTo string

func (s *sentTo) RoundTrip(r *http.Request) (*http.Response, error) {
	*s = sentTo(r.URL.String())
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
}

func TestBaseURLs(t *testing.T) {
	for base, want := range map[string]string{
		"https://api.anthropic.com":            "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/":           "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/v1":         "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/v1/":        "https://api.anthropic.com/v1/messages",
		"https://api.deepseek.com/anthropic":   "https://api.deepseek.com/anthropic/v1/messages",
		"https://relay.example/anthropic?a=b":  "https://relay.example/anthropic/v1/messages?a=b",
		"http://127.0.0.1:8080/anthropic/v1//": "http://127.0.0.1:8080/anthropic/v1/messages",
	} {
		var sent sentTo
		p, err := anthropic.New(provider.Settings{Name: "mine", BaseURL: base, Transport: &sent})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m"})
		if string(sent) != want || p.Name() != "mine" {
			t.Errorf("%s: %s sent to %s, want %s", base, p.Name(), sent, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, base := range []string{"", "api.anthropic.com", "/v1", "ftp://x", "https://", "http://a b", ":"} {
		if _, err := anthropic.New(provider.Settings{BaseURL: base}); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
}

// What the dialect can't carry is the caller's fault, and is not sent.
func TestChatRefuses(t *testing.T) {
	calls := func(call provider.ToolCall) *provider.Chat {
		call.ID, call.Name = "1", "get_time"
		return &provider.Chat{Messages: []provider.Message{{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{call}}}}
	}
	for name, chat := range map[string]*provider.Chat{
		"arguments that are not JSON":     calls(provider.ToolCall{Arguments: `{"a":`}),
		"state that is not ours":          calls(provider.ToolCall{Extra: []byte(`{"anthropic":5}`)}),
		"a format that is not JSON":       {ResponseFormat: []byte("{")},
		"a format without its schema":     {ResponseFormat: []byte(`{"type":"json_schema","json_schema":{"strict":true}}`)},
		"a schema that is not JSON":       {Tools: []provider.Tool{{Name: "get_time", Parameters: []byte("{")}}},
		"a body of its own, not JSON":     {Native: &provider.Native{Dialect: anthropic.DialectName, Body: []byte("{")}},
		"a body of its own, not a object": {Native: &provider.Native{Dialect: anthropic.DialectName, Body: []byte("[]")}},
	} {
		t.Run(name, func(t *testing.T) {
			if e := dialect().Refused(t, chat); e.Unsupported || e.Failover() {
				t.Errorf("%+v is for another candidate", e)
			}
		})
	}
}

// A setting that the dialect lacks is never dropped silently: another candidate may support it.
func TestUnsupported(t *testing.T) {
	for field, chat := range map[string]*provider.Chat{
		"temperature":          {Temperature: new(1.01)},
		"messages[].name":      {Messages: []provider.Message{{Role: provider.RoleUser, Name: "ann"}}},
		"response_format.type": {ResponseFormat: []byte(`{"type":"grammar"}`)},
	} {
		if e := dialect().Refused(t, chat); !e.Unsupported || !e.Failover() || !strings.HasPrefix(e.Text, field+": ") {
			t.Errorf("%s: %+v", field, e)
		}
	}
}

// The vendor requires a limit; the model's own is better than a default.
func TestMaxTokens(t *testing.T) {
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body = string(text)
	}))
	defer server.Close()
	p, err := anthropic.New(provider.Settings{BaseURL: server.URL, Transport: server.Client().Transport, OutputLimits: map[string]int{"big": 64000}})
	if err != nil {
		t.Fatal(err)
	}
	for want, chat := range map[string]*provider.Chat{
		`"max_tokens":64000,`: {Model: "big"}, `"max_tokens":8192,`: {Model: "other"}, `"max_tokens":7,`: {Model: "big", MaxTokens: 7},
	} {
		_, _ = p.Chat(t.Context(), provider.Credential{}, chat)
		if !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
}

// Of a caller's headers only the two that its body is written for are sent.
func TestNativeHeaders(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer server.Close()
	p, err := anthropic.New(provider.Settings{BaseURL: server.URL, Transport: server.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(dialect string) {
		_, _ = p.Chat(t.Context(), providertest.Credential(), &provider.Chat{Native: &provider.Native{Dialect: dialect, Body: []byte("{}"), Headers: map[string]string{
			"anthropic-beta": "files-api-2025-04-14,a", "Anthropic-Version": "2024-01-01", "x-api-key": "stolen", "Authorization": "Bearer stolen", "cookie": "a=b",
		}}})
	}
	ask(anthropic.DialectName)
	for name, want := range map[string]string{
		"Anthropic-Beta": "files-api-2025-04-14,a", "Anthropic-Version": "2024-01-01",
		"X-Api-Key": providertest.Key, "Authorization": "", "Cookie": "",
	} {
		if value := got.Get(name); value != want {
			t.Errorf("%s: %q, want %q", name, value, want)
		}
	}
	ask("openai")
	if got.Get("Anthropic-Beta") != "" || got.Get("Anthropic-Version") != "2023-06-01" {
		t.Errorf("headers of another dialect's body: %v", got)
	}
}

// A stream of endless thinking doesn't fill the memory.
func TestThinkingIsBounded(t *testing.T) {
	delta := `{"type":"thinking_delta","thinking":"` + strings.Repeat("x", 64<<10) + `"}`
	stream := openStream(t, delta, false)
	for range 8 << 20 / (64 << 10) {
		if _, err := stream.Next(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := stream.Next()
	for err == nil {
		_, err = stream.Next()
	}
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != apierr.ClassServerError {
		t.Errorf("err = %v", err)
	}
}

// The first report of a stream has only the input; null is not a count; and of two stop reasons the first counts.
func TestStreamUsage(t *testing.T) {
	text := `data: {"type":"message_start","message":{"usage":{"input_tokens":9,"cache_read_input_tokens":7,"output_tokens":5}}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"cache_read_input_tokens":null,"output_tokens":3}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}

`
	vendor := providertest.Canned(http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}}, text)
	p, err := anthropic.New(provider.Settings{BaseURL: "http://vendor.example", Transport: vendor})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := p.StreamChat(t.Context(), provider.Credential{}, &provider.Chat{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Next()
	if err != nil || first.Usage == nil || *first.Usage != (provider.Usage{Input: 9, CacheRead: 7}) {
		t.Errorf("first %+v, err %v", first.Usage, err)
	}
	answer, err := providertest.Collect(stream)
	if err != nil || *answer.Usage != (provider.Usage{Input: 9, CacheRead: 7, Output: 4}) || answer.FinishReason != provider.FinishStop {
		t.Errorf("%+v, err %v", answer, err)
	}
}
