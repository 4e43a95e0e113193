package bedrock_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

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

// termsOf returns the terms of model, whatever a chat names.
func termsOf(model string) func(string) provider.Terms {
	return func(string) provider.Terms { return bedrock.Dialect().TermsOf(model) }
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
		New: newAs(claude, nil), Terms: termsOf(claude), Framing: framing(converseFrame),
		Answers: answers(), Refusals: refusals(), StreamErrors: streamErrors(),
		Parts: func(texts, calls int) string {
			return `{"output":{"message":{"content":[` +
				strings.Repeat(`{"reasoningContent":{"reasoningText":{"text":"so","signature":"c2ln"}}},{"text":"a piece"},`, texts) +
				strings.Repeat(`{"toolUse":{"toolUseId":"tooluse_1","name":"f","input":{}}},`, calls) + `{"text":"."}]}},"stopReason":"end_turn"}`
		},
	}
}

func TestConformance(t *testing.T) { providertest.Run(t, dialect()) }

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

// If the model can't reason with the rest of the request, required reasoning is refused, and other reasoning is left
// out.
func TestReasoningThatIsExcluded(t *testing.T) {
	for model, chat := range map[string]*provider.Chat{claude: {Model: claude, Temperature: new(0.5)}, llama: {Model: llama}} {
		terms := bedrock.Dialect().TermsOf(model)
		chat.Messages, chat.Reasoning = providertest.Chats()["text"].Messages, &provider.Reasoning{Effort: "high"}
		if fitted, err := terms.Fit(chat); err != nil || fitted.Reasoning != nil || fitted.Left != provider.HintEffort {
			t.Errorf("%s: %+v, %v, want the reasoning left out", model, fitted, err)
		}
		chat.Reasoning.Required = true
		if _, err := terms.Fit(chat); err == nil || !strings.Contains(err.Error(), "reasoning: ") {
			t.Errorf("%s: %v, want a refusal", model, err)
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
		chat := &provider.Chat{Model: cmp.Or(model, "m"), Native: &provider.Native{Dialect: "anthropic", Body: []byte(`{"x":1}`)}}
		if sent := strings.Contains(sentBody(t, chat), `"x":1`); sent != want {
			t.Errorf("%s: the body is sent as it came: %t", model, sent)
		}
	}
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
