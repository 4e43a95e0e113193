package bedrock_test

import (
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/bedrock"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

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
	chats["documents_alone"] = documentsAlone()
	chats["thinking_budget"] = &provider.Chat{Messages: chats["text"].Messages, Reasoning: &provider.Reasoning{Effort: provider.EffortHigh}}
	for name, chat := range chats {
		t.Run(name, func(t *testing.T) { d.Request(t, name, chat, false) })
	}
	t.Run("stream", func(t *testing.T) { d.Request(t, "stream", chats["text"], true) })
	for name, model := range map[string]string{
		"adaptive": "global.anthropic.claude-opus-4-7", "other_model": llama, "nova": "amazon.nova-pro-v1:0",
		"application_profile": "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1b2c3",
	} {
		d.New, d.Terms = newAs(model, nil), termsOf(model)
		chat := cached()
		chat.Reasoning = &provider.Reasoning{Effort: provider.EffortXHigh}
		chat.Tools = chats["tools"].Tools
		terms := bedrock.Dialect().TermsOf(model)
		fitted, err := terms.Fit(chat)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { d.Request(t, name, fitted.Chat, false) })
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

// documentsAlone has a turn of a document, and a turn of a result and documents, both without a text.
func documentsAlone() *provider.Chat {
	document := func(name string, life provider.CacheLife) provider.Part {
		return provider.Part{File: &provider.File{Name: name, URL: "data:application/pdf;base64,JVBERi0="}, Cache: life}
	}
	turns := providertest.Chats()["tool_results"].Messages
	return &provider.Chat{Messages: append(
		[]provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{Text: " "}, document("a.pdf", provider.CacheShort)}}},
		turns[1], turns[2], turns[3],
		provider.Message{Role: provider.RoleUser, Content: []provider.Part{document("", ""), document("c.pdf", "")}},
	)}
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
