package gemini_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Compile-time checks of the interfaces.
var (
	_ provider.ImageFetcher = (*gemini.Provider)(nil)
	_ provider.Embedder     = (*gemini.Provider)(nil)
	_ provider.ImageMaker   = (*gemini.Provider)(nil)
)

func dialect() providertest.Dialect {
	return providertest.Dialect{
		New: func(baseURL string, transport http.RoundTripper) (provider.ChatProvider, error) {
			return gemini.New(provider.Settings{Name: "gemini", BaseURL: baseURL, Transport: transport})
		},
		Terms: gemini.Dialect().Terms, Answers: answers(), Refusals: refusals(), StreamErrors: streamErrors(), NoMark: true,
		Native: providertest.Native{
			Dialect: gemini.DialectName, Unknown: nativeUnknown, InURL: true,
			Body: `{"model":"other","contents":[{"role":"user","parts":[{"text":"hi"}]}],` + nativeUnknown + `}`,
		},
		Parts: func(texts, calls int) string {
			return `{"candidates":[{"content":{"parts":[` + strings.Repeat(`{"text":"so","thought":true},{"text":"a piece"},`, texts) +
				strings.Repeat(`{"functionCall":{"name":"f","args":{}}},`, calls) + `{"text":"."}]},"finishReason":"STOP"}]}`
		},
	}
}

// nativeUnknown is a part of a native body that the gateway's fields don't hold.
const nativeUnknown = `"safetySettings":[{"category":"<b>&c"}],"generationConfig":{"topK": 4.0e1}`

func TestConformance(t *testing.T) { providertest.Run(t, dialect()) }

// over is a provider of a vendor that answers with one text.
func over(tb testing.TB, status int, kind, text string) *gemini.Provider {
	tb.Helper()
	vendor := providertest.Canned(status, http.Header{"Content-Type": {kind}}, text)
	p, err := gemini.New(provider.Settings{Name: "gemini", BaseURL: "http://vendor.example", Transport: vendor})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestBlocked(t *testing.T) {
	for name, want := range blocked() {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "errors", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = over(t, 200, "application/json", string(text)).Chat(t.Context(), providertest.Credential(), &provider.Chat{Model: flash})
			if diff := cmp.Diff(want, *providertest.ErrorOf(t, err), cmpopts.IgnoreFields(provider.Error{}, "Cause")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Settings that the dialect can't express are left out of the shared requests, and are refused (TestUnsupported).
func TestRequests(t *testing.T) {
	d := dialect()
	chats := providertest.Chats()
	images := chats["images"].Messages[0].Content
	chats["images"].Messages[0].Content = slices.Delete(images, 1, 2)
	chats["conversation_back"] = conversation(flash)
	chats["conversation_back_3"] = conversation("models/gemini-3-pro-preview")
	chats["json_loose"] = &provider.Chat{
		Model: "model", Messages: chats["text"].Messages,
		ResponseFormat: []byte(`{"type":"json_schema","json_schema":{"name":"n","description":"A city.","schema":{"type":"object","not":{}}}}`),
	}
	for name, chat := range chats {
		t.Run(name, func(t *testing.T) { d.Request(t, name, chat, false) })
	}
	t.Run("stream", func(t *testing.T) { d.Request(t, "stream", chats["text"], true) })
}

// conversation continues after the answer "signatures", with a call in it that another vendor made.
func conversation(model string) *provider.Chat {
	answer := answers()["signatures"]
	foreign := provider.ToolCall{ID: "toolu_1", Name: "get_time", Extra: []byte(`{"anthropic":{"lead":[{"type":"thinking"}]}}`)}
	turn := func(role provider.Role, text, call string) provider.Message {
		return provider.Message{Role: role, ToolCallID: call, Content: []provider.Part{{Text: text}}}
	}
	return &provider.Chat{Model: model, Messages: []provider.Message{
		turn(provider.RoleUser, "The time?", ""),
		{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{foreign}},
		turn(provider.RoleTool, "[10, 36]", "toolu_1"),
		turn(provider.RoleUser, "And the weather?", ""),
		{Role: provider.RoleAssistant, ToolCalls: answer.ToolCalls},
		turn(provider.RoleTool, ` {"sky": 1.50} `, "fc_1"),
		turn(provider.RoleTool, "", "fc_2"),
	}}
}

// sentTo records the URL of a request and returns an empty answer.
type sentTo struct {
	url, header string
}

func (s *sentTo) RoundTrip(r *http.Request) (*http.Response, error) {
	s.url = r.URL.String()
	s.header = r.Header.Get("X-Goog-Api-Key")
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
}

func TestURLs(t *testing.T) {
	const google = "https://generativelanguage.googleapis.com"
	for _, tt := range []struct{ base, model, whole, stream string }{
		{google, flash, google + "/v1beta/models/gemini-2.5-flash:generateContent", google + "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"},
		{google + "/v1/", "models/m", google + "/v1/models/m:generateContent", google + "/v1/models/m:streamGenerateContent?alt=sse"},
		{google + "/v1alpha", "m", google + "/v1alpha/models/m:generateContent", google + "/v1alpha/models/m:streamGenerateContent?alt=sse"},
		{"http://relay.example/g?a=b", "m", "http://relay.example/g/models/m:generateContent?a=b", "http://relay.example/g/models/m:streamGenerateContent?a=b&alt=sse"},
		{google, "../../x?key=1#a/b", google + "/v1beta/models/..%2F..%2Fx%3Fkey=1%23a%2Fb:generateContent", google + "/v1beta/models/..%2F..%2Fx%3Fkey=1%23a%2Fb:streamGenerateContent?alt=sse"},
	} {
		var sent sentTo
		p, err := gemini.New(provider.Settings{Name: "mine", BaseURL: tt.base, Transport: &sent})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = p.Chat(t.Context(), providertest.Credential(), &provider.Chat{Model: tt.model})
		if sent.url != tt.whole || sent.header != providertest.Key {
			t.Errorf("sent to %s with the key %q, want %s with %q", sent.url, sent.header, tt.whole, providertest.Key)
		}
		if p.Name() != "mine" || p.FetchesImages() {
			t.Errorf("name %q, fetches images %t; want mine, which fetches none", p.Name(), p.FetchesImages())
		}
		_, _ = p.StreamChat(t.Context(), providertest.Credential(), &provider.Chat{Model: tt.model})
		if sent.url != tt.stream || strings.Contains(sent.url, providertest.Key) {
			t.Errorf("stream sent to %s, want %s", sent.url, tt.stream)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, base := range []string{"", "api.example", "/v1", "ftp://x", "https://", "http://a b", ":", "https://a.example?key=secret"} {
		if _, err := gemini.New(provider.Settings{BaseURL: base}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

func message(role provider.Role, part provider.Part) []provider.Message {
	return []provider.Message{{Role: role, ToolCallID: "1", Name: "n", Content: []provider.Part{part}}}
}

func TestChatRefuses(t *testing.T) {
	calls := func(call provider.ToolCall) *provider.Chat {
		call.ID, call.Name = "1", "get_time"
		return &provider.Chat{Messages: []provider.Message{{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{call}}}}
	}
	for name, chat := range map[string]*provider.Chat{
		"arguments that are not JSON":      calls(provider.ToolCall{Arguments: `{"a":`}),
		"arguments that are no object":     calls(provider.ToolCall{Arguments: `[1]`}),
		"state that is not ours":           calls(provider.ToolCall{Extra: []byte(`{"google":5}`)}),
		"a result of an unknown call":      {Messages: []provider.Message{{Role: provider.RoleTool, ToolCallID: "9"}}},
		"a format that is not JSON":        {ResponseFormat: []byte("{")},
		"a format without its schema":      {ResponseFormat: []byte(`{"type":"json_schema","json_schema":{"strict":true}}`)},
		"a loose schema that is not JSON":  {Tools: []provider.Tool{{Name: "get_time", Parameters: []byte("{")}}},
		"a strict schema that is not JSON": {Tools: []provider.Tool{{Name: "get_time", Strict: true, Parameters: []byte("{")}}},
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
	schema := func(text string) *provider.Chat {
		return &provider.Chat{ResponseFormat: json.RawMessage(`{"type":"json_schema","json_schema":{"strict":true,"schema":` + text + `}}`)}
	}
	const at = "response_format.json_schema.schema"
	tool := []provider.Tool{{Name: "a"}, {Name: "b", Strict: true, Parameters: []byte(`{"properties":{"x":{"pattern":"a"}}}`)}}
	for want, chat := range map[string]*provider.Chat{
		"messages[].name: ":      {Messages: message(provider.RoleUser, provider.Part{Text: "a"})},
		"response_format.type: ": {ResponseFormat: []byte(`{"type":"grammar"}`)},
		"response_format.json_schema.strict: ": {
			Model: "gemini-2.5-flash", Tools: []provider.Tool{{Name: "a"}}, ResponseFormat: schema(`{}`).ResponseFormat,
		},
		"messages[].content: this provider accepts images as data:":       {Messages: message(provider.RoleSystem, provider.Part{ImageURL: "https://a.example/a.png"})[:0:0]},
		"messages[].content: this provider accepts no images":             {Messages: message(provider.RoleTool, provider.Part{ImageURL: "data:image/png;base64,aQ=="})},
		"messages[].content: this provider accepts no documents but":      {Messages: message(provider.RoleTool, provider.Part{File: &provider.File{URL: "data:application/pdf;base64,JVBERg=="}})},
		`tools[1].function.parameters.properties.x: this provider has no`: {Tools: tool},
		at + `: this provider has no keyword "not"`:                       schema(`{"type":"object","not":{}}`),
		at + `.items.anyOf[]: this provider has no keyword "minLength"`:   schema(`{"items":{"anyOf":[{"type":"string"},{"minLength":1}]}}`),
		at + `.$defs.a.const: `:                                           schema(`{"$defs":{"a":{"const":null}}}`),
		at + `.properties: must be an object`:                             schema(`{"properties":[1]}`),
		at + `.items: this provider wants an object`:                      schema(`{"items":true}`),
		at + ": is nested deeper":                                         schema(strings.Repeat(`{"items":`, 40) + "{}" + strings.Repeat("}", 40)),
	} {
		if strings.Contains(want, "data:") {
			chat.Messages = []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{ImageURL: "https://a.example/a.png"}}}}
		}
		if e := dialect().Refused(t, chat); !e.Unsupported || !e.Failover() || !strings.HasPrefix(e.Text, want) {
			t.Errorf("%s: %+v", want, e)
		}
	}
}

// Long names in a schema are not copied for each keyword below them.
func TestSchemaIsProportional(t *testing.T) {
	p := over(t, http.StatusOK, "application/json", "{}")
	providertest.Proportional(t, 1000, func(n int) func() {
		schema := `{"properties":{"` + strings.Repeat("x", 10*n) + `":{"properties":{` + strings.Repeat(`"a":{"type":"string"},`, n) + `"b":{}}}}}`
		chat := &provider.Chat{ResponseFormat: json.RawMessage(`{"type":"json_schema","json_schema":{"strict":true,"schema":` + schema + `}}`)}
		return func() { _, _ = p.Chat(t.Context(), provider.Credential{}, chat) }
	})
}

// A strict schema is sent in the vendor's keywords, in its own order.
func TestStrictSchema(t *testing.T) {
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body = string(text)
	}))
	defer server.Close()
	p, err := gemini.New(provider.Settings{BaseURL: server.URL, Transport: server.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	const given = `{"$schema":"x","type":"object","properties":{"z":{"const":"a"},"const":{"type":["string","null"]},"l":{"type":"array","items":{"$ref":"#/$defs/d"},"minItems":1,` +
		`"prefixItems":[{"enum":[1,2]}]},"m":{"anyOf":[{"const":1.50},{"type":"null"}]}},"required":["z"],"additionalProperties":false,"$defs":{"d":{"type":"object","additionalProperties":{"type":"string"},"default":null}}}`
	want := strings.NewReplacer(`{"const":"a"}`, `{"enum":["a"]}`, `{"const":1.50}`, `{"enum":[1.50]}`).Replace(given)
	_, _ = p.Chat(t.Context(), provider.Credential{}, &provider.Chat{
		ResponseFormat: json.RawMessage(`{"type":"json_schema","json_schema":{"strict":true,"schema":` + given + `}}`),
	})
	if !strings.Contains(body, `"responseJsonSchema":`+want) {
		t.Errorf("%s lacks %s", body, want)
	}
}
