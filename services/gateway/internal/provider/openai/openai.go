// Package openai speaks the chat completions dialect of OpenAI, which Azure and
// every OpenAI-compatible server (vLLM, Ollama, Groq, Mistral, …) speak too.
// Source: OpenAI API reference, "Chat" and "Streaming".
package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/wire"
)

// Config of one provider that speaks the dialect.
type Config struct {
	// Name as the policy calls it.
	Name string
	// BaseURL up to the version segment, which may be left out: "https://api.openai.com/v1".
	BaseURL string
	// KeyHeader carries the key in place of "Authorization: Bearer", as Azure's "api-key" does.
	KeyHeader string
	// Client reaches the vendor; see wire.NewClient.
	Client *http.Client
}

// Provider is a configured vendor. Safe for concurrent use.
type Provider struct {
	config Config
	url    string
	// completionTokens: OpenAI and Azure want max_completion_tokens (their
	// reasoning models refuse max_tokens); compatible servers know only the latter.
	completionTokens bool
	caller           wire.Caller
}

var version = regexp.MustCompile(`/v\d+\w*(/|$)`)

// New fails on a base URL that is not absolute.
func New(config Config) (*Provider, error) {
	base, err := url.Parse(strings.TrimRight(config.BaseURL, "/"))
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, errors.New("base_url: must be an absolute http or https URL")
	}
	if !version.MatchString(base.Path) {
		base.Path += "/v1"
	}
	host := base.Hostname()
	base.Path += "/chat/completions"
	return &Provider{
		config: config, url: base.String(),
		completionTokens: host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com"),
		caller:           wire.Caller{Client: config.Client, Classify: classify, Now: time.Now},
	}, nil
}

// Name as the policy calls the provider.
func (p *Provider) Name() string { return p.config.Name }

func (p *Provider) header(credential provider.Credential) http.Header {
	h := http.Header{}
	switch {
	case credential.Key.IsZero():
	case p.config.KeyHeader != "":
		h.Set(p.config.KeyHeader, credential.Key.Reveal())
	default:
		h.Set("Authorization", "Bearer "+credential.Key.Reveal())
	}
	return h
}

// Chat asks for a whole completion.
func (p *Provider) Chat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	response, err := p.caller.Post(ctx, p.url, p.header(credential), p.encode(chat, false))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // ReadJSON says what matters.
	var completion completion
	if err := wire.ReadJSON(ctx, response, &completion); err != nil {
		return nil, err
	}
	if completion.Error != nil {
		return nil, p.caller.Refused(response.StatusCode, completion.document())
	}
	return completion.answer()
}

// StreamChat asks for a streamed completion.
func (p *Provider) StreamChat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	header := p.header(credential)
	header.Set("Accept", "text/event-stream")
	response, err := p.caller.Post(ctx, p.url, header, p.encode(chat, true))
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return p.notStream(response)
	}
	return newStream(ctx, &p.caller, response.Body), nil
}

// notStream types what came with a 2xx in place of events: an error document,
// or a page of something in between.
func (p *Provider) notStream(response *http.Response) (provider.Stream, error) {
	defer response.Body.Close() //nolint:errcheck // The answer is an error already.
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err == nil && strings.Contains(string(body), `"error"`) {
		return nil, p.caller.Refused(response.StatusCode, body)
	}
	return nil, wire.Malformed("the answer is not an event stream", err)
}
