// Package openai speaks the chat completions dialect of OpenAI, which Azure and
// every OpenAI-compatible server (vLLM, Ollama, Groq, Mistral, …) speak too.
// Source: OpenAI API reference, "Chat" and "Streaming".
package openai

import (
	"context"
	"errors"
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

// complete is a path that needs no version added: it has one, or it names a
// deployment of Azure's ("…/openai/deployments/d?api-version=…").
var complete = regexp.MustCompile(`/v\d+\w*(/|$)|/deployments/`)

// New fails on a base URL that is not absolute.
func New(config Config) (*Provider, error) {
	base, err := url.Parse(config.BaseURL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, errors.New("base_url: must be an absolute http or https URL")
	}
	base.Path = strings.TrimRight(base.Path, "/")
	if !complete.MatchString(base.Path) {
		base.Path += "/v1"
	}
	base.Path += "/chat/completions"
	host := base.Hostname()
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
	caller := p.caller.With(credential.Key)
	response, err := caller.Post(ctx, p.url, p.header(credential), p.encode(chat, false)) //nolint:bodyclose // read closes it.
	if err != nil {
		return nil, err
	}
	completion, err := read(ctx, caller, response)
	if err != nil {
		return nil, err
	}
	return completion.answer()
}

func read(ctx context.Context, caller *wire.Caller, response *http.Response) (*completion, error) {
	body, err := wire.Read(ctx, response)
	if err != nil {
		return nil, err
	}
	return decode(caller, response.StatusCode, body)
}

// StreamChat asks for a streamed completion.
func (p *Provider) StreamChat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	header := p.header(credential)
	header.Set("Accept", "text/event-stream")
	caller := p.caller.With(credential.Key)
	response, err := caller.Post(ctx, p.url, header, p.encode(chat, true)) //nolint:bodyclose // The stream or read closes it.
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return newStream(ctx, caller, response.Body), nil
	}
	if _, err := read(ctx, caller, response); err != nil {
		return nil, err
	}
	return nil, wire.Malformed("the answer is not an event stream", nil)
}
