package openai_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

// sending returns what a server with a configuration receives for a chat.
func sending(t *testing.T, config provider.Settings, chat *provider.Chat, stream bool) (string, error) {
	t.Helper()
	sent := &sentTo{}
	config.Transport = sent
	p, err := openai.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if stream {
		_, err = p.StreamChat(t.Context(), providertest.Credential(), chat)
	} else {
		_, err = p.Chat(t.Context(), providertest.Credential(), chat)
	}
	_, body, _ := strings.Cut(sent.body, "\r\n\r\n")
	return body, err
}

func native(body string) *provider.Chat {
	return &provider.Chat{Model: "ours", Native: &provider.Native{Dialect: openai.DialectName, Body: json.RawMessage(body)}}
}

var (
	anyServer = provider.Settings{BaseURL: "http://127.0.0.1:1/v1"}
	vendor    = provider.Settings{BaseURL: "https://api.openai.com/v1"}
	mistral   = provider.Settings{BaseURL: "https://api.mistral.ai/v1"}
)

func TestNativeBodies(t *testing.T) {
	const options = `"stream":true,"stream_options":{"include_usage":true`
	for name, tt := range map[string]struct {
		config     provider.Settings
		stream     bool
		body, want string
	}{
		"whole":                     {anyServer, false, `{"messages":[], "n": 2}`, `{"model":"ours","messages":[],"n":2}`},
		"nothing else":              {anyServer, false, `{}`, `{"model":"ours"}`},
		"the stream is off":         {anyServer, false, `{"stream":true,"stream_options":{"include_usage":true}}`, `{"model":"ours"}`},
		"a model given twice":       {anyServer, false, `{"model":"a","x":1,"model":"dear"}`, `{"model":"ours","x":1}`},
		"a model in other letters":  {anyServer, false, `{"Model":"dear","MODEL":"dear"}`, `{"model":"ours"}`},
		"a model in escapes":        {anyServer, false, `{"\u006dodel":"dear"}`, `{"model":"ours"}`},
		"usage is asked for":        {anyServer, true, `{"x":1}`, `{"model":"ours","x":1,` + options + `}}`},
		"other options stay":        {anyServer, true, `{"stream":false,"stream_options":{"include_obfuscation":true,"include_usage":false}}`, `{"model":"ours",` + options + `,"include_obfuscation":true}}`},
		"options of a strange kind": {anyServer, true, `{"stream_options":7}`, `{"model":"ours",` + options + `}}`},
		"no options":                {provider.Settings{BaseURL: anyServer.BaseURL, StreamUsage: new(false)}, true, `{"stream_options":{"include_usage":true}}`, `{"model":"ours","stream":true}`},
		"Mistral knows no options":  {mistral, true, `{"x":1}`, `{"model":"ours","x":1,"stream":true}`},
		"… unless configuration says so": {
			provider.Settings{BaseURL: mistral.BaseURL, StreamUsage: new(true)}, true, `{"x":1}`, `{"model":"ours","x":1,` + options + `}}`,
		},
		"a limit by OpenAI's new name":    {vendor, false, `{"max_tokens":5}`, `{"model":"ours","max_completion_tokens":5}`},
		"a limit by the old name":         {anyServer, false, `{"max_completion_tokens":5}`, `{"model":"ours","max_tokens":5}`},
		"two limits are the caller's own": {anyServer, false, `{"max_tokens":5,"max_completion_tokens":6}`, `{"model":"ours","max_tokens":5,"max_completion_tokens":6}`},
		"numbers and escapes as they are": {anyServer, false, `{"a":1.50,"b":"\u00fc<&","c":1e400}`, `{"model":"ours","a":1.50,"b":"\u00fc<&","c":1e400}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := sending(t, tt.config, native(tt.body), tt.stream)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNativeBodiesThatAreNone(t *testing.T) {
	for _, body := range []string{"", "[]", "{", `"a"`, "null", `{"a":1}{"b":2}`} {
		got, err := sending(t, anyServer, native(body), true)
		if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != apierr.ClassPolicy || got != "" {
			t.Errorf("%q: %v, sent %q, want a policy error and nothing sent", body, err, got)
		}
	}
}

// A caller that did not ask for the usage chunk doesn't get it, though the gateway does.
func TestUsageChunkIsOurs(t *testing.T) {
	const first = `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`
	const last = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	const usage = `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	text := "data: " + strings.Join([]string{first, last, usage, "[DONE]"}, "\n\ndata: ") + "\n\n"
	for body, want := range map[string][]providertest.Frame{
		`{}`: {{Data: first}, {Data: last}},
		`{"stream_options":{"include_usage":false}}`: {{Data: first}, {Data: last}},
		`{"stream_options":{"include_usage":true}}`:  {{Data: first}, {Data: last}, {Data: usage}},
	} {
		stream, err := answering(t, "text/event-stream", text).StreamChat(t.Context(), provider.Credential{}, native(body))
		if err != nil {
			t.Fatal(err)
		}
		got, answer, err := providertest.Frames(stream)
		if err != nil || answer.Usage == nil || answer.Usage.Output != 2 {
			t.Errorf("%s: %+v, %v, want the usage", body, answer, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: frames (-want +got):\n%s", body, diff)
		}
	}
}

// Every choice counts, though only a native body can ask for several.
func TestSeveralChoices(t *testing.T) {
	const text = `data: {"choices":[{"index":0,"delta":{"content":"a","tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}]}}]}

data: {"choices":[{"index":1,"delta":{"content":"b","tool_calls":[{"index":0,"id":"2","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"stop"}]}

data: [DONE]

`
	stream, err := answering(t, "text/event-stream", text).StreamChat(t.Context(), provider.Credential{}, native(`{"n":2}`))
	if err != nil {
		t.Fatal(err)
	}
	frames, answer, err := providertest.Frames(stream)
	if err != nil || len(frames) != 2 {
		t.Fatalf("%d frames, %v, want 2", len(frames), err)
	}
	if answer.Text != "ab" || len(answer.ToolCalls) != 2 {
		t.Errorf("text %q, calls %+v; want ab and two calls", answer.Text, answer.ToolCalls)
	}
}

// Headers of a native body never authenticate.
func TestNativeHeaders(t *testing.T) {
	sent := &sentTo{}
	p, err := openai.New(provider.Settings{BaseURL: "http://127.0.0.1:1", KeyHeader: "api-key", Transport: sent})
	if err != nil {
		t.Fatal(err)
	}
	chat := native(`{}`)
	chat.Native.Headers = map[string]string{"openai-beta": "x=1", "Authorization": "Bearer theirs", "Api-Key": "theirs", "OpenAI-Project": "theirs"}
	_, _ = p.Chat(t.Context(), provider.Credential{}, chat)
	if !strings.Contains(sent.body, "Openai-Beta: x=1") || strings.Contains(sent.body, "theirs") {
		t.Errorf("sent %s", sent.body)
	}
	_, _ = p.Chat(t.Context(), providertest.Credential(), chat)
	if !strings.Contains(sent.body, "Api-Key: "+providertest.Key) || strings.Contains(sent.body, "theirs") {
		t.Errorf("sent %s", sent.body)
	}
}

// toolTurn is a conversation with a call and its result.
func toolTurn(id string, extra string) *provider.Chat {
	return &provider.Chat{Model: "m", Messages: []provider.Message{
		{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: id, Name: "f", Extra: json.RawMessage(extra)}}},
		{Role: provider.RoleTool, ToolCallID: id, Content: []provider.Part{{Text: "x"}}},
	}}
}

// Mistral's models accept only IDs of nine letters and digits.
func TestShortToolIDs(t *testing.T) {
	own := toolTurn("abcDEF123", "")
	if got, _ := sending(t, mistral, own, false); strings.Count(got, `"abcDEF123"`) != 2 {
		t.Errorf("a fitting id is changed: %s", got)
	}
	seen := make(map[string]bool)
	for _, id := range []string{"call_1", "call_2", "toolu_01A", strings.Repeat("x", 64), "abc-EF123"} {
		got, _ := sending(t, mistral, toolTurn(id, ""), false)
		var body struct {
			Messages []struct {
				ToolCalls  []struct{ ID string } `json:"tool_calls"`
				ToolCallID string                `json:"tool_call_id"`
			} `json:"messages"`
		}
		if err := json.Unmarshal([]byte(got), &body); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		short := body.Messages[0].ToolCalls[0].ID
		if len(short) != 9 || strings.ContainsAny(short, "_-") {
			t.Errorf("%s became %q, want 9 letters and digits", id, short)
		}
		if result := body.Messages[1].ToolCallID; short != result {
			t.Errorf("%s became %q in the call and %q in its result", id, short, result)
		}
		if seen[short] {
			t.Errorf("%s became %q, as another did", id, short)
		}
		seen[short] = true
	}
	if got, _ := sending(t, anyServer, toolTurn("call_1", ""), false); strings.Count(got, `"call_1"`) != 2 {
		t.Errorf("another server's ids are changed: %s", got)
	}
}

// OpenAI and Azure accept IDs of 40 characters, in conversations that are encoded anew and in relayed ones.
func TestLongToolIDs(t *testing.T) {
	azure := provider.Settings{BaseURL: "https://x.openai.azure.com", APIVersion: "2024-10-21"}
	const fits, long = "call_0123456789012345678901234567890abcd", "chatcmpl-tool-0123456789abcdef0123456789abcdef"
	relayed := func(id string) *provider.Chat {
		chat := toolTurn(id, "")
		chat.Native = &provider.Native{Dialect: openai.DialectName, Body: json.RawMessage(`{"messages":[{"role":"assistant","tool_calls":[{"id":"` + id +
			`","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"x"}]}`)}
		return chat
	}
	for name, server := range map[string]provider.Settings{"OpenAI": vendor, "Azure": azure, "another": anyServer} {
		for form, of := range map[string]func(id string) *provider.Chat{"encoded": func(id string) *provider.Chat { return toolTurn(id, "") }, "relayed": relayed} {
			for _, id := range []string{fits, long} {
				got, _ := sending(t, server, of(id), false)
				sent := gjson.Get(got, "messages.0.tool_calls.0.id").Str
				if kept := len(id) <= 40 || name == "another"; sent == "" || kept != (sent == id) || !kept && len(sent) > 40 {
					t.Errorf("%s, %s: %s became %q", name, form, id, sent)
				}
				if result := gjson.Get(got, "messages.1.tool_call_id").Str; result != sent {
					t.Errorf("%s, %s: %s became %q in the call and %q in its result", name, form, id, sent, result)
				}
			}
		}
	}
}

// Opaque state is sent back to servers that may use it, and not to those that refuse it.
func TestExtraContent(t *testing.T) {
	const google, anthropic = `{"google":{"thought_signature":"c2ln"}}`, `{"anthropic":{"thinking":"c2ln"}}`
	for name, tt := range map[string]struct {
		config provider.Settings
		extra  string
		want   bool
	}{
		"google's at a relay":    {anyServer, google, true},
		"google's at OpenAI":     {vendor, google, false},
		"google's at Mistral":    {mistral, google, false},
		"google's at Azure":      {provider.Settings{BaseURL: "https://x.openai.azure.com/openai/v1"}, google, false},
		"anthropic's at a relay": {anyServer, anthropic, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := sending(t, tt.config, toolTurn("1", tt.extra), false)
			if strings.Contains(got, "c2ln") != tt.want {
				t.Errorf("sent %s", got)
			}
		})
	}
}

func TestParsedStreamOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		config provider.Settings
		want   string
	}{
		"any server": {anyServer, `"stream":true,"stream_options":{"include_usage":true}}`},
		"OpenAI":     {vendor, `"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}}`},
		"Mistral":    {mistral, `"stream":true}`},
		"one that refuses options": {
			provider.Settings{BaseURL: anyServer.BaseURL, StreamUsage: new(false)}, `"stream":true}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := sending(t, tt.config, &provider.Chat{Model: "m"}, true); !strings.HasSuffix(got, tt.want) {
				t.Errorf("sent %s, want %s at the end", got, tt.want)
			}
		})
	}
}

func TestParallelTools(t *testing.T) {
	chat := &provider.Chat{Model: "m", ParallelTools: new(false)}
	if got, _ := sending(t, anyServer, chat, false); strings.Contains(got, "parallel") {
		t.Errorf("without tools the setting is refused: %s", got)
	}
	chat.Tools = []provider.Tool{{Name: "f"}}
	if got, _ := sending(t, anyServer, chat, false); !strings.Contains(got, `"parallel_tool_calls":false`) {
		t.Errorf("sent %s", got)
	}
}

// Azure's deployments are a part of the path.
func TestAzureDeployments(t *testing.T) {
	sent := &sentTo{}
	p, err := openai.New(provider.Settings{BaseURL: "https://x.openai.azure.com/", APIVersion: "2024-10-21", Transport: sent})
	if err != nil {
		t.Fatal(err)
	}
	const want = "https://x.openai.azure.com/openai/deployments/gpt-4.1-eu/chat/completions?api-version=2024-10-21"
	_, _ = p.Chat(t.Context(), providertest.Credential(), &provider.Chat{Model: "gpt-4.1-eu"})
	if sent.url != want || !strings.Contains(sent.body, "Api-Key: "+providertest.Key) || strings.Contains(sent.body, "Authorization") {
		t.Errorf("sent to %s: %s", sent.url, sent.body)
	}
	for _, model := range []string{"", "..", "../x", "a/b", "a?b", "a#b", "a%2fb", "ü"} {
		sent.url = ""
		_, err := p.Chat(t.Context(), providertest.Credential(), &provider.Chat{Model: model})
		if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != apierr.ClassPolicy || sent.url != "" {
			t.Errorf("%q: %v, sent to %q", model, err, sent.url)
		}
	}
}

// Every kind of answer has the rate limits.
func TestLimits(t *testing.T) {
	vendor := providertest.Transport(func(r *http.Request) (*http.Response, error) {
		kind, text := "application/json", `{"choices":[{"message":{"content":"a"}}]}`
		if r.Header.Get("Accept") != "" {
			kind, text = "text/event-stream", "data: [DONE]\n\n"
		}
		header := http.Header{"Content-Type": {kind}, "X-Ratelimit-Remaining-Tokens": {"149"}}
		return &http.Response{StatusCode: http.StatusOK, Request: r, Header: header, Body: io.NopCloser(strings.NewReader(text))}, nil
	})
	p, err := openai.New(provider.Settings{BaseURL: "http://vendor.example", Transport: vendor})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m"})
	if err != nil || answer.Limits.Tokens.Remaining != 149 {
		t.Errorf("%+v, %v", answer, err)
	}
	stream, err := p.StreamChat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if limited, ok := stream.(provider.LimitedStream); !ok || limited.Limits().Tokens.Remaining != 149 {
		t.Errorf("%#v has no limits", stream)
	}
}
