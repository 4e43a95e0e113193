// Package vertex implements Google's Vertex AI: Gemini in the generateContent dialect, Claude in Anthropic's, and models of
// other publishers in OpenAI's, all below one project and location. Source: Vertex AI documentation, and Google's and
// Anthropic's own clients (google.golang.org/genai, anthropic-sdk-go).
package vertex

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// DialectName is this dialect's name in the policy.
const DialectName = "vertex"

// claudeVersion is the version of Anthropic's API that the host takes in the body.
const claudeVersion = "vertex-2023-10-16"

// keyHeader carries an API key. Access tokens of identities are sent as bearer tokens.
const keyHeader = "X-Goog-Api-Key"

// Provider is a configured project and location. Safe for concurrent use.
type Provider struct {
	*gemini.Provider

	claude *anthropic.Provider
	open   *openai.Provider
	// publisher is the URL of Google's own models, and caller sends to it.
	publisher *url.URL
	caller    wire.Caller
}

// located matches the end of a base URL: a project and a location, or Google's own models without them ("express mode").
var located = regexp.MustCompile(`/projects/[^/]+/locations/[^/]+$|^/v\d\w*$`)

// New returns a Provider, or an error if the base URL names no project and location.
func New(settings provider.Settings) (*Provider, error) {
	base, err := wire.Base(settings.BaseURL)
	if err != nil {
		return nil, err
	}
	if !located.MatchString(base.Path) {
		return nil, errors.New("base_url: want https://HOST/v1/projects/PROJECT/locations/LOCATION, or https://HOST/v1 with an API key")
	}
	p := &Provider{publisher: base.JoinPath("publishers", "google"), caller: wire.NewCaller(settings, keyHeader, gemini.Classify)}
	at := func(path string) provider.Settings {
		s := settings
		s.BaseURL = base.JoinPath(path).String()
		return s
	}
	if p.Provider, err = gemini.New(at("publishers/google")); err != nil {
		return nil, err
	}
	if p.open, err = openai.New(at("endpoints/openapi")); err != nil {
		return nil, err
	}
	models := base.JoinPath("publishers", "anthropic", "models")
	p.claude = anthropic.NewAt(settings, anthropic.Host{
		Messages: func(model string, stream bool) *url.URL {
			method := "rawPredict"
			if stream {
				method = "streamRawPredict"
			}
			return models.JoinPath(url.PathEscape(model) + ":" + method)
		},
		Count:   func() *url.URL { return models.JoinPath("count-tokens:rawPredict") },
		Version: claudeVersion, KeyHeader: keyHeader, Classify: classifyClaude,
	})
	return p, nil
}

// classifyClaude classifies an error of Claude, which is Google's or Anthropic's.
func classifyClaude(e *provider.Error, header http.Header, body []byte) {
	if view := wire.ParseView(body); view.Get("error.status").Exists() || view.Get("0.error.status").Exists() {
		gemini.Classify(e, header, body)
		return
	}
	anthropic.Classify(e, header, body)
}

// isClaude reports whether a model is Anthropic's.
func isClaude(model string) bool { return strings.HasPrefix(model, "claude-") }

// isOpen reports whether a model is of another publisher, whose name is a part of the model's: "meta/llama-…-maas".
func isOpen(model string) bool {
	return strings.Contains(model, "/") && !strings.HasPrefix(model, "models/")
}

// of returns the adapter of a model's dialect.
func (p *Provider) of(model string) provider.ChatProvider {
	switch {
	case isClaude(model):
		return p.claude
	case isOpen(model):
		return p.open
	}
	return p.Provider
}

// Chat requests a whole answer.
func (p *Provider) Chat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	return p.of(chat.Model).Chat(ctx, credential, chat)
}

// StreamChat requests a streamed answer.
func (p *Provider) StreamChat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	return p.of(chat.Model).StreamChat(ctx, credential, chat)
}

// Omitted implements provider.Omitter.
func (p *Provider) Omitted(chat *provider.Chat) []string {
	if o, ok := p.of(chat.Model).(provider.Omitter); ok {
		return o.Omitted(chat)
	}
	return nil
}

// CanRelay implements provider.Relaying.
func (p *Provider) CanRelay(chat *provider.Chat) bool {
	r, ok := p.of(chat.Model).(provider.Relaying)
	return !ok || r.CanRelay(chat)
}

// CountTokens implements provider.TokenCounter for Claude, in the caller's own body.
func (p *Provider) CountTokens(ctx context.Context, credential provider.Credential, chat *provider.Chat) (int64, error) {
	if !isClaude(chat.Model) {
		return 0, provider.Unsupported("model", "this provider counts the tokens of Claude only")
	}
	return p.claude.CountTokens(ctx, credential, chat)
}
