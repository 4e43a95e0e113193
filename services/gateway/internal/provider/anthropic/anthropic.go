// Package anthropic speaks Anthropic's Messages dialect.
// Source: Anthropic API reference, "Messages" and "Streaming Messages",
// version 2023-06-01.
package anthropic

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/wire"
)

const apiVersion = "2023-06-01"

// defaultMaxTokens is sent when a request sets no limit: the dialect requires one.
const defaultMaxTokens = 4096

// Config of one provider that speaks the dialect.
type Config struct {
	// Name as the policy calls it.
	Name string
	// BaseURL with or without the version: "https://api.anthropic.com".
	BaseURL string
	// Client reaches the vendor; see wire.NewClient.
	Client *http.Client
}

// Provider is a configured vendor. Safe for concurrent use.
type Provider struct {
	config Config
	url    string
	caller wire.Caller
}

// New fails on a base URL that is not absolute.
func New(config Config) (*Provider, error) {
	base, err := url.Parse(config.BaseURL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, errors.New("base_url: must be an absolute http or https URL")
	}
	base.Path = strings.TrimRight(base.Path, "/")
	if !strings.HasSuffix(base.Path, "/v1") {
		base.Path += "/v1"
	}
	base.Path += "/messages"
	return &Provider{
		config: config, url: base.String(),
		caller: wire.Caller{Client: config.Client, Classify: classify, Now: time.Now},
	}, nil
}

// Name as the policy calls the provider.
func (p *Provider) Name() string { return p.config.Name }

func header(credential provider.Credential) http.Header {
	h := http.Header{}
	h.Set("Anthropic-Version", apiVersion)
	if !credential.Key.IsZero() {
		h.Set("X-Api-Key", credential.Key.Reveal())
	}
	return h
}

// Chat asks for a whole message.
func (p *Provider) Chat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	body, err := encode(chat, false)
	if err != nil {
		return nil, err
	}
	caller := p.caller.With(credential.Key)
	response, err := caller.Post(ctx, p.url, header(credential), body) //nolint:bodyclose // read closes it.
	if err != nil {
		return nil, err
	}
	answer, err := read(ctx, caller, response)
	if err != nil {
		return nil, err
	}
	return answer.decode()
}

// StreamChat asks for a streamed message.
func (p *Provider) StreamChat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	body, err := encode(chat, true)
	if err != nil {
		return nil, err
	}
	h := header(credential)
	h.Set("Accept", "text/event-stream")
	caller := p.caller.With(credential.Key)
	response, err := caller.Post(ctx, p.url, h, body) //nolint:bodyclose // The stream or read closes it.
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
