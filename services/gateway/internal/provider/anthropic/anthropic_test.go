package anthropic_test

import (
	"errors"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/anthropic"
	"switchyard.dev/services/gateway/internal/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dialect() providertest.Dialect {
	return providertest.Dialect{
		New: func(baseURL string, client *http.Client) (provider.Chatter, error) {
			return anthropic.New(anthropic.Config{Name: "anthropic", BaseURL: baseURL, Client: client})
		},
		Answers: answers(), Refusals: refusals(), StreamErrors: streamErrors(),
	}
}

func TestConformance(t *testing.T) { providertest.Run(t, dialect()) }

func TestRequests(t *testing.T) { providertest.Requests(t, dialect()) }

// sentTo notes where a request goes and answers nothing of use.
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
		p, err := anthropic.New(anthropic.Config{Name: "mine", BaseURL: base, Client: &http.Client{Transport: &sent}})
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
		if _, err := anthropic.New(anthropic.Config{BaseURL: base}); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
}

// What the dialect can't carry is the caller's fault, and is not sent.
func TestChatRefuses(t *testing.T) {
	for name, chat := range map[string]*provider.Chat{
		"arguments that are not JSON": {Messages: []provider.Message{{
			Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "1", Name: "get_time", Arguments: `{"a":`}},
		}}},
		"a format that is not JSON": {ResponseFormat: []byte("{")},
		"a schema that is not JSON": {Tools: []provider.Tool{{Name: "get_time", Parameters: []byte("{")}}},
	} {
		t.Run(name, func(t *testing.T) {
			var sent sentTo
			p, err := anthropic.New(anthropic.Config{BaseURL: "http://vendor.example", Client: &http.Client{Transport: &sent}})
			if err != nil {
				t.Fatal(err)
			}
			_, whole := p.Chat(t.Context(), providertest.Credential(), chat)
			_, streamed := p.StreamChat(t.Context(), providertest.Credential(), chat)
			for _, err := range []error{whole, streamed} {
				if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != apierr.ClassPolicy || e.Text == "" || sent != "" {
					t.Errorf("err = %v, sent to %q; want class policy and nothing sent", err, sent)
				}
			}
		})
	}
}
