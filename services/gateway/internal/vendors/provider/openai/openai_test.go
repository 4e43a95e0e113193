package openai_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dialect(config provider.Settings) providertest.Dialect {
	return providertest.Dialect{
		New: func(baseURL string, transport http.RoundTripper) (provider.ChatProvider, error) {
			wired := config
			wired.BaseURL, wired.Transport = baseURL+config.BaseURL, transport
			return openai.New(wired)
		},
		Answers: answers(), Refusals: refusals(), StreamErrors: streamErrors(),
		Parts: func(texts, calls int) string {
			return `{"choices":[{"message":{"content":[` + strings.Repeat(`{"type":"thinking","thinking":[{"text":"so"}]},{"text":"a piece"},`, texts) + `{"text":"."}],"tool_calls":[` +
				strings.TrimSuffix(strings.Repeat(`{"function":{"name":"f","arguments":"{}"}},`, calls), ",") + `]},"finish_reason":"stop"}]}`
		},
		Native: providertest.Native{
			Dialect: openai.DialectName, Mark: "[DONE]", Unknown: unknown,
			Body: `{"model": "theirs", "messages":[{"role":"user","content":"hi"}], ` + unknown + `, "stream_options": {"include_usage": true}}`,
		},
	}
}

// unknown is JSON that the gateway's fields don't hold: numbers as they were written, markup, other scripts.
const unknown = `"x_new":{"n":1.50,"big":12345678901234567890,"s":"<b>\u00fc ü</b>"}`

func TestConformance(t *testing.T) {
	providertest.Run(t, dialect(provider.Settings{Name: "openai"}))
}

func TestRequests(t *testing.T) {
	providertest.Requests(t, dialect(provider.Settings{Name: "openai"}))
}

// The key header and the path of Azure's deployments.
func TestRequestToAzure(t *testing.T) {
	d := dialect(provider.Settings{Name: "azure", KeyHeader: "api-key", BaseURL: "/openai/deployments/d/?api-version=2024-10-21"})
	d.Request(t, "azure", providertest.Chats()["text"], false)
}

type sentTo struct {
	url, body string
}

// RoundTrip records the request and returns an empty answer.
func (s *sentTo) RoundTrip(r *http.Request) (*http.Response, error) {
	body := new(strings.Builder)
	if err := r.Write(body); err != nil {
		return nil, err
	}
	s.url, s.body = r.URL.String(), body.String()
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
}

func TestBaseURLs(t *testing.T) {
	const old, new = `"max_tokens":5`, `"max_completion_tokens":5`
	tests := map[string]struct{ want, limit string }{
		"https://api.openai.com":                             {"https://api.openai.com/v1/chat/completions", new},
		"https://api.openai.com/":                            {"https://api.openai.com/v1/chat/completions", new},
		"https://api.openai.com/v1":                          {"https://api.openai.com/v1/chat/completions", new},
		"https://api.openai.com/v1/":                         {"https://api.openai.com/v1/chat/completions", new},
		"https://x.openai.azure.com/openai/v1":               {"https://x.openai.azure.com/openai/v1/chat/completions", new},
		"https://x.openai.azure.com/openai/v1?a=1":           {"https://x.openai.azure.com/openai/v1/chat/completions?a=1", new},
		"https://bedrock-mantle.us-east-1.api.aws/openai/v1": {"https://bedrock-mantle.us-east-1.api.aws/openai/v1/chat/completions", new},
		"https://g.example/v1beta/openai":                    {"https://g.example/v1beta/openai/chat/completions", old},
		"https://api.groq.com/openai/v1":                     {"https://api.groq.com/openai/v1/chat/completions", old},
		"https://z.example/api/paas/v4":                      {"https://z.example/api/paas/v4/chat/completions", old},
		"http://127.0.0.1:11434":                             {"http://127.0.0.1:11434/v1/chat/completions", old},
		"http://[::1]:8000/vision":                           {"http://[::1]:8000/vision/chat/completions", old},
		"https://relay.example/api.openai.com/v1":            {"https://relay.example/api.openai.com/v1/chat/completions", old},
		"https://api.openai.com.evil.example":                {"https://api.openai.com.evil.example/v1/chat/completions", old},
		"https://x.openai.azure.com/openai/deployments/d?api-version=1": {
			"https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1", new,
		},
	}
	for base, tt := range tests {
		t.Run(base, func(t *testing.T) {
			sent := &sentTo{}
			p, err := openai.New(provider.Settings{Name: "mine", BaseURL: base, Transport: sent})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m", MaxTokens: 5})
			if sent.url != tt.want || !strings.Contains(sent.body, tt.limit) {
				t.Errorf("sent to %s, want %s with %s: %s", sent.url, tt.want, tt.limit, sent.body)
			}
			if p.Name() != "mine" {
				t.Errorf("Name = %q", p.Name())
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, base := range []string{"", "api.openai.com/v1", "/v1", "ftp://x/v1", "https://", "http://a b", ":"} {
		if _, err := openai.New(provider.Settings{BaseURL: base}); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
}

// A request that JSON can't represent is the caller's fault, not the vendor's.
func TestChatRefusesBrokenJSON(t *testing.T) {
	p, err := openai.New(provider.Settings{BaseURL: "http://127.0.0.1:1", Transport: http.DefaultTransport})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Chat(t.Context(), providertest.Credential(), &provider.Chat{ResponseFormat: []byte("{")})
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Class != apierr.ClassPolicy {
		t.Errorf("err = %v, want class policy", err)
	}
}
