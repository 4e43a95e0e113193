package bedrock_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	aws "github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/bedrock"
	"switchyard.dev/services/gateway/internal/vendors/provider/eventstream"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	claude = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
	llama  = "meta.llama3-3-70b-instruct-v1:0"
)

// as is a provider that is asked for one model, whatever model a chat names.
type as struct {
	*bedrock.Provider

	model string
	// native is the body of every chat that has none; nil leaves them without.
	native []byte
}

func (a as) asked(chat *provider.Chat) *provider.Chat {
	own := *chat
	own.Model = a.model
	if a.native != nil && own.Native == nil {
		own.Native = &provider.Native{Dialect: "anthropic", Body: a.native}
	}
	return &own
}

func (a as) Chat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	return a.Provider.Chat(ctx, credential, a.asked(chat))
}

func (a as) StreamChat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	return a.Provider.StreamChat(ctx, credential, a.asked(chat))
}

func newAs(model string, native []byte) func(baseURL string, transport http.RoundTripper) (provider.ChatProvider, error) {
	return func(baseURL string, transport http.RoundTripper) (provider.ChatProvider, error) {
		p, err := bedrock.New(provider.Settings{Name: "bedrock", BaseURL: baseURL, Transport: transport})
		return as{p, model, native}, err
	}
}

// frame returns a message as AWS's encoder writes it.
func frame(payload string, headers ...string) string {
	m := aws.Message{Payload: []byte(payload)}
	for i := 0; i < len(headers); i += 2 {
		m.Headers = append(m.Headers, aws.Header{Name: headers[i], Value: aws.StringValue(headers[i+1])})
	}
	var out bytes.Buffer
	if err := aws.NewEncoder().Encode(&out, m); err != nil {
		panic(err) // Only a header that is too long.
	}
	return out.String()
}

// framed returns the frames of server-sent events. The name of an exception or an error has that before it.
func framed(events string, one func(e sse.Event) string) string {
	var out strings.Builder
	for reader := sse.NewReader(strings.NewReader(events)); ; {
		e, err := reader.Next()
		if err != nil {
			return out.String()
		}
		kind, name, special := strings.Cut(e.Name, ":")
		switch {
		case special && kind == "error":
			out.WriteString(frame("", ":message-type", kind, ":error-code", name, ":error-message", string(e.Data)))
		case special:
			out.WriteString(frame(string(e.Data), ":exception-type", name, ":content-type", "application/json", ":message-type", kind))
		default:
			out.WriteString(one(e))
		}
	}
}

func converseFrame(e sse.Event) string {
	return frame(string(e.Data), ":event-type", e.Name, ":content-type", "application/json", ":message-type", "event")
}

func chunkFrame(e sse.Event) string {
	payload := `{"bytes":"` + base64.StdEncoding.EncodeToString(e.Data) + `","p":"abcdefghijk"}`
	return frame(payload, ":event-type", "chunk", ":content-type", "application/json", ":message-type", "event")
}

func framing(one func(e sse.Event) string) providertest.Framing {
	return providertest.Framing{
		MediaType: eventstream.MediaType, Encode: func(events string) string { return framed(events, one) },
	}
}

func dialect() providertest.Dialect {
	return providertest.Dialect{
		New: newAs(claude, nil), Answers: answers(), Refusals: refusals(), StreamErrors: streamErrors(), Framing: framing(converseFrame),
		Parts: func(texts, calls int) string {
			return `{"output":{"message":{"content":[` +
				strings.Repeat(`{"reasoningContent":{"reasoningText":{"text":"so","signature":"c2ln"}}},{"text":"a piece"},`, texts) +
				strings.Repeat(`{"toolUse":{"toolUseId":"tooluse_1","name":"f","input":{}}},`, calls) + `{"text":"."}]}},"stopReason":"end_turn"}`
		},
	}
}

func TestConformance(t *testing.T) { providertest.Run(t, dialect()) }

func TestRequests(t *testing.T) {
	d := dialect()
	chats := providertest.Chats()
	chats["images"].Messages[0].Content[1].ImageURL = "data:image/jpeg;base64,/9j/4AA="
	files := chats["files"].Messages[0].Content
	files[1].File.Name = "../a  (1)\n[x]é.pdf"
	files[2].File.URL = "data:text/plain;charset=utf-8;base64,aGk="
	chats["thinking_back"] = comesBack()
	chats["called_without_tools"] = &provider.Chat{Messages: chats["tool_results"].Messages}
	chats["called_and_none"] = &provider.Chat{
		Messages: chats["tool_results"].Messages, Tools: chats["tools"].Tools, ToolChoice: &provider.ToolChoice{Mode: "none"},
	}
	chats["cache_points"] = cached()
	chats["thinking_budget"] = &provider.Chat{Messages: chats["text"].Messages, Reasoning: &provider.Reasoning{Effort: provider.EffortHigh}}
	for name, chat := range chats {
		t.Run(name, func(t *testing.T) { d.Request(t, name, chat, false) })
	}
	t.Run("stream", func(t *testing.T) { d.Request(t, "stream", chats["text"], true) })
	for name, model := range map[string]string{
		"adaptive": "global.anthropic.claude-opus-4-7", "other_model": llama, "nova": "amazon.nova-pro-v1:0",
		"application_profile": "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1b2c3",
	} {
		d.New = newAs(model, nil)
		chat := cached()
		chat.Reasoning = &provider.Reasoning{Effort: provider.EffortXHigh}
		chat.Tools = chats["tools"].Tools
		t.Run(name, func(t *testing.T) { d.Request(t, name, chat, false) })
	}
}

// cached is a conversation with more points of the prompt cache than the vendor takes.
func cached() *provider.Chat {
	turn := func(role provider.Role, text string, life provider.CacheLife) provider.Message {
		return provider.Message{Role: role, Content: []provider.Part{{Text: text, Cache: life}}}
	}
	result := turn(provider.RoleTool, "10:36", provider.CacheLong)
	result.ToolCallID = "1"
	return &provider.Chat{Tools: []provider.Tool{{Name: "get_time"}}, Messages: []provider.Message{
		turn(provider.RoleSystem, "One.", provider.CacheLong), turn(provider.RoleSystem, "Two.", provider.CacheLong),
		turn(provider.RoleUser, "Three.", provider.CacheLong),
		{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "1", Name: "get_time", Arguments: "{}"}}},
		result,
		turn(provider.RoleAssistant, "It is 10:36.", provider.CacheShort),
		turn(provider.RoleUser, "Four.", provider.CacheLong), turn(provider.RoleUser, "", provider.CacheLong),
	}}
}

// comesBack is a conversation that continues after the answer "thinking_tools", with a call in it that another vendor
// made.
func comesBack() *provider.Chat {
	answer := answers()["thinking_tools"]
	foreign := provider.ToolCall{ID: "functions.get_time:0" + strings.Repeat("x", 100), Name: "get_time", Arguments: " ", Extra: []byte(`{"google":{"thought_signature":"c2ln"}}`)}
	turn := func(role provider.Role, text, call string) provider.Message {
		return provider.Message{Role: role, ToolCallID: call, Content: []provider.Part{{Text: text}}}
	}
	return &provider.Chat{Model: "model", Tools: providertest.Chats()["tools"].Tools, Messages: []provider.Message{
		turn(provider.RoleUser, "The time?", ""),
		{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{foreign}},
		turn(provider.RoleTool, "10:36", foreign.ID),
		turn(provider.RoleUser, "And the weather?", ""),
		{Role: provider.RoleAssistant, Content: []provider.Part{{Text: answer.Text}}, ToolCalls: answer.ToolCalls},
		turn(provider.RoleTool, "sunny", "tooluse_1"),
		turn(provider.RoleTool, "10:37", "tooluse_2"),
	}}
}

// sentTo records the URL of a request, in the form that is sent, and returns an empty answer.
type sentTo string

func (s *sentTo) RoundTrip(r *http.Request) (*http.Response, error) {
	*s = sentTo(r.URL.Scheme + "://" + r.URL.Host + r.URL.RequestURI())
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
}

// A model is one segment of the path, whatever is in its name.
func TestURLs(t *testing.T) {
	const base = "https://bedrock-runtime.eu-west-1.amazonaws.com"
	for _, c := range []struct{ base, model, want string }{
		{base, "amazon.nova-pro-v1:0", base + "/model/amazon.nova-pro-v1%3A0/converse"},
		{base + "/", "openai.gpt-oss", base + "/model/openai.gpt-oss/converse"},
		{base + "/prefix//?x=1", "m", base + "/prefix/model/m/converse?x=1"},
		{base, "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.x-v1:0", base + "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.x-v1%3A0/converse"},
		{base, "a b?c#d%2Fe;é\n\\", base + "/model/a%20b%3Fc%23d%252Fe%3B%C3%A9%0A%5C/converse"},
		{base, "a/../../b", ""},
		{base, "..", ""},
		{base, ".", ""},
		{base, "", ""},
		{base, "/", ""},
		{base, "a//b", ""},
		{base, "a/", ""},
	} {
		var sent sentTo
		p, err := bedrock.New(provider.Settings{Name: "mine", BaseURL: c.base, Transport: &sent})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: c.model})
		if string(sent) != c.want || p.Name() != "mine" {
			t.Errorf("%q sent to %s, want %s", c.model, sent, c.want)
		}
		if e := providertest.ErrorOf(t, err); c.want == "" && (e.Class != apierr.ClassPolicy || !strings.HasPrefix(e.Text, "model: ")) {
			t.Errorf("%q: %v", c.model, e)
		}
	}
}

// signer records what it signs.
type signer struct {
	path string
	sum  [sha256.Size]byte
}

func (s *signer) Sign(_ context.Context, r *http.Request, sum [sha256.Size]byte, _ time.Time) error {
	s.path, s.sum = r.URL.EscapedPath(), sum
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 signed")
	return nil
}

// A signature is of the path and the body that are sent.
func TestRequestsAreSigned(t *testing.T) {
	var path, authorization string
	var sum [sha256.Size]byte
	p, err := bedrock.New(provider.Settings{BaseURL: "http://vendor.example", Transport: providertest.Transport(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		path, _, _ = strings.Cut(r.URL.RequestURI(), "?")
		authorization, sum = r.Header.Get("Authorization"), sha256.Sum256(body)
		return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, err
	})})
	if err != nil {
		t.Fatal(err)
	}
	s := new(signer)
	_, _ = p.Chat(t.Context(), provider.Credential{Signer: s}, &provider.Chat{Model: "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.x v1:0"})
	if path == "" || s.path != path || s.sum != sum || authorization != "AWS4-HMAC-SHA256 signed" {
		t.Errorf("signed %s, sent %s with %q", s.path, path, authorization)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, base := range []string{"", "bedrock-runtime.eu-west-1.amazonaws.com", "/v1", "ftp://x", "https://", ":"} {
		if _, err := bedrock.New(provider.Settings{BaseURL: base}); err == nil {
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
		"arguments that are not JSON":  calls(provider.ToolCall{Arguments: `{"a":`}),
		"state that is not ours":       calls(provider.ToolCall{Extra: []byte(`{"anthropic":5}`)}),
		"a format that is not JSON":    {ResponseFormat: []byte("{")},
		"a format without its schema":  {ResponseFormat: []byte(`{"type":"json_schema","json_schema":{"strict":true}}`)},
		"a schema that is not JSON":    {Tools: []provider.Tool{{Name: "get_time", Parameters: []byte("{")}}},
		"a body of its own, not JSON":  {Native: &provider.Native{Dialect: "anthropic", Body: []byte("{")}},
		"a body of its own, no object": {Native: &provider.Native{Dialect: "anthropic", Body: []byte("[]")}},
	} {
		t.Run(name, func(t *testing.T) {
			if e := dialect().Refused(t, chat); e.Unsupported || e.Failover() {
				t.Errorf("%+v is for another candidate", e)
			}
		})
	}
}

// A setting that the dialect or the model lacks is never dropped silently: another candidate may support it.
func TestUnsupported(t *testing.T) {
	content := func(part provider.Part) *provider.Chat {
		return &provider.Chat{Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{part}}}}
	}
	strict := &provider.Chat{ResponseFormat: []byte(`{"type":"json_schema","json_schema":{"strict":true,"schema":{}}}`)}
	for _, c := range []struct {
		model, field string
		chat         *provider.Chat
	}{
		{claude, "temperature", &provider.Chat{Temperature: new(1.01)}},
		{claude, "messages[].name", &provider.Chat{Messages: []provider.Message{{Role: provider.RoleUser, Name: "ann"}}}},
		{claude, "response_format.type", &provider.Chat{ResponseFormat: []byte(`{"type":"grammar"}`)}},
		{claude, "messages[].content", content(provider.Part{ImageURL: "https://images.example/a.png"})},
		{claude, "messages[].content", content(provider.Part{ImageURL: "data:image/tiff;base64,AAAA"})},
		{claude, "messages[].content", content(provider.Part{File: &provider.File{URL: "https://files.example/a.pdf"}})},
		{claude, "messages[].content", content(provider.Part{File: &provider.File{URL: "data:application/zip;base64,AAAA"}})},
		{claude, "reasoning", &provider.Chat{Temperature: new(0.5), Reasoning: &provider.Reasoning{Effort: "high", Required: true}}},
		{llama, "reasoning", &provider.Chat{Reasoning: &provider.Reasoning{Effort: "high", Required: true}}},
		{llama, "response_format.json_schema.strict", strict},
		{"anthropic.claude-3-haiku-20240307-v1:0", "response_format.json_schema.strict", strict},
	} {
		d := dialect()
		d.New = newAs(c.model, nil)
		if e := d.Refused(t, c.chat); !e.Unsupported || !e.Failover() || !strings.HasPrefix(e.Text, c.field+": ") {
			t.Errorf("%s: %+v", c.field, e)
		}
	}
}

// sentBody returns the body that a provider sends for a chat.
func sentBody(t *testing.T, chat *provider.Chat) string {
	t.Helper()
	var body string
	p, err := bedrock.New(provider.Settings{
		BaseURL: "http://vendor.example", OutputLimits: map[string]int{"big": 64000},
		Transport: providertest.Transport(func(r *http.Request) (*http.Response, error) {
			text, err := io.ReadAll(r.Body)
			body = string(text)
			return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, err
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = p.Chat(t.Context(), provider.Credential{}, chat)
	return body
}

// A bound is always sent: without one the vendor reserves the model's own.
func TestMaxTokens(t *testing.T) {
	for want, chat := range map[string]*provider.Chat{
		`"maxTokens":64000`: {Model: "big"}, `"maxTokens":4096`: {Model: "other"}, `"maxTokens":7`: {Model: "big", MaxTokens: 7},
	} {
		if body := sentBody(t, chat); !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
}

// Claude takes bodies of Anthropic's form, other models don't.
func TestForms(t *testing.T) {
	forms := bedrock.Dialect().FormsOf(provider.Settings{})
	for model, want := range map[string]bool{
		claude: true, "anthropic.claude-opus-4-7": true, llama: false, "": false,
		"arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-7":  true,
		"arn:aws:bedrock:us-east-1:1:application-inference-profile/anthropic-profile": false,
	} {
		if got := slices.Equal(forms(model), []string{"anthropic"}); got != want {
			t.Errorf("%s: %v", model, forms(model))
		}
		chat := &provider.Chat{Model: cmpOr(model), Native: &provider.Native{Dialect: "anthropic", Body: []byte(`{"x":1}`)}}
		if sent := strings.Contains(sentBody(t, chat), `"x":1`); sent != want {
			t.Errorf("%s: the body is sent as it came: %t", model, sent)
		}
	}
}

func cmpOr(model string) string {
	if model == "" {
		return "m"
	}
	return model
}

// Stop reasons by which the vendor says that the model failed are its failure.
func TestMalformedOutput(t *testing.T) {
	for _, reason := range []string{"malformed_model_output", "malformed_tool_use"} {
		vendor := providertest.Canned(http.StatusOK, nil, `{"output":{"message":{"content":[]}},"stopReason":"`+reason+`"}`)
		p, err := bedrock.New(provider.Settings{BaseURL: "http://vendor.example", Transport: vendor})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m"})
		if e := providertest.ErrorOf(t, err); e.Class != apierr.ClassServerError || e.Code != reason {
			t.Errorf("%s: %v", reason, e)
		}
	}
}

// A stream of endless thinking doesn't fill the memory.
func TestThinkingIsBounded(t *testing.T) {
	delta := "event: contentBlockDelta\ndata: " + `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"` + strings.Repeat("x", 64<<10) + `"}}}` + "\n\n"
	stream := dialect().Endless(t, "", delta, false)
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

// Thinking of other models is shown and not kept.
func TestThinkingOfOthers(t *testing.T) {
	d := dialect()
	d.New = newAs("us.deepseek.r1-v1:0", nil)
	want := *answers()["thinking_tools"]
	want.ToolCalls = slices.Clone(want.ToolCalls)
	for i := range want.ToolCalls {
		want.ToolCalls[i].Extra = nil
	}
	d.Answers = maps.Clone(d.Answers)
	maps.DeleteFunc(d.Answers, func(name string, _ *provider.Answer) bool { return name != "text" && name != "parallel_tools" })
	d.Answers["thinking_tools"] = &want
	providertest.Run(t, d)
}

// The state of a call is Anthropic's, so that a conversation may change between the hosts of Claude.
func TestStateIsAnthropics(t *testing.T) {
	var state struct {
		Anthropic struct{ Lead, Before []json.RawMessage }
	}
	if err := json.Unmarshal(answers()["thinking_tools"].ToolCalls[0].Extra, &state); err != nil || len(state.Anthropic.Lead) != 2 {
		t.Errorf("%+v, %v", state, err)
	}
}
