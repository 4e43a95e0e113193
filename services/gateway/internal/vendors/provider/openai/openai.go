// Package openai speaks the dialect of OpenAI, which Azure and every
// OpenAI-compatible server (vLLM, Ollama, Groq, Mistral, …) speak too: chat
// completions, embeddings and images. Source: OpenAI API reference, "Chat",
// "Streaming", "Embeddings" and "Images".
package openai

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// DialectName is the name of native requests that a Provider relays.
const DialectName = "openai"

// Config of one provider that speaks the dialect.
type Config struct {
	// Name as the policy calls it.
	Name string
	// BaseURL up to the version segment, which may be left out: "https://api.openai.com/v1".
	// With APIVersion it is the resource's address: "https://mine.openai.azure.com".
	BaseURL string
	// APIVersion of Azure's deployments API, for example "2024-10-21"; models are
	// then the names of deployments. Empty for everything else.
	APIVersion string
	// KeyHeader carries the key in place of "Authorization: Bearer"; with
	// APIVersion it is "api-key" unless set.
	KeyHeader string
	// StreamUsage reports whether the server takes stream_options, by which usage is
	// asked for in streams. Nil: as its host is known to, and most do.
	StreamUsage *bool
	// ShortToolIDs: the server wants ids of tool calls as Mistral's models do, nine
	// letters or digits. Mistral's own host is known.
	ShortToolIDs bool
	// Transport reaches the vendor; see wire.NewTransport.
	Transport http.RoundTripper
}

// Provider is a configured vendor. Safe for concurrent use.
type Provider struct {
	config Config
	traits traits
	base   *url.URL
	caller wire.Caller
}

// complete is a path that needs no version added: it has one, or it names a
// deployment of Azure's ("…/openai/deployments/d?api-version=…").
var complete = regexp.MustCompile(`/v\d+\w*(/|$)|/deployments/`)

// New fails on a base URL that is not absolute.
func New(config Config) (*Provider, error) {
	base, err := wire.Base(config.BaseURL)
	if err != nil {
		return nil, err
	}
	switch {
	case config.APIVersion != "":
		query := base.Query()
		query.Set("api-version", config.APIVersion)
		base.RawQuery = query.Encode()
		base.Path = strings.TrimSuffix(base.Path, "/openai") + "/openai/deployments/"
		if config.KeyHeader == "" {
			config.KeyHeader = "api-key"
		}
	case !complete.MatchString(base.Path):
		base.Path += "/v1"
	}
	return &Provider{
		config: config, traits: traitsOf(base, config), base: base,
		caller: wire.Caller{Transport: config.Transport, Classify: classify, Now: time.Now},
	}, nil
}

// Name as the policy calls the provider.
func (p *Provider) Name() string { return p.config.Name }

// deployment is what Azure lets one be called; it becomes a part of the path.
var deployment = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// endpoint is where an operation of a model is asked for.
func (p *Provider) endpoint(operation, model string) (*url.URL, error) {
	at := *p.base
	if p.config.APIVersion != "" {
		if !deployment.MatchString(model) {
			return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "model: is not the name of a deployment"}
		}
		at.Path += model
	}
	at.Path += operation
	return &at, nil
}

// betaHeader is the only one that is passed on with a native body: others choose
// who pays (OpenAI-Organization, OpenAI-Project) or what HTTP does.
const betaHeader = "OpenAI-Beta"

// header authenticates a call. What came with a native body never does.
func (p *Provider) header(credential provider.Credential, native *provider.Native) http.Header {
	h := http.Header{}
	if native != nil {
		for name, value := range native.Headers {
			if strings.EqualFold(name, betaHeader) {
				h.Set(betaHeader, value)
			}
		}
	}
	switch {
	case credential.Key.IsZero():
	case p.config.KeyHeader != "":
		h.Set(p.config.KeyHeader, credential.Key.Reveal())
	default:
		h.Set("Authorization", "Bearer "+credential.Key.Reveal())
	}
	return h
}

// post sends a body to an operation of a model and gives the head of the answer.
func (p *Provider) post(ctx context.Context, caller *wire.Caller, operation, model string, header http.Header, body any) (*http.Response, error) {
	at, err := p.endpoint(operation, model)
	if err != nil {
		return nil, err
	}
	return caller.Post(ctx, at, header, body)
}

// ask posts a body and reads the whole answer.
func (p *Provider) ask(ctx context.Context, credential provider.Credential, operation, model string, body any) (reply, error) {
	caller := p.caller.With(credential.Key)
	response, err := p.post(ctx, caller, operation, model, p.header(credential, nil), body) //nolint:bodyclose // wire.Read closes it.
	if err != nil {
		return reply{}, err
	}
	text, err := wire.Read(ctx, response)
	if err != nil {
		return reply{}, err
	}
	var r reply
	err = parse(caller, response.StatusCode, text, r.member)
	return r, err
}

// Chat asks for a whole completion.
func (p *Provider) Chat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	call, err := p.call(chat, false)
	if err != nil {
		return nil, err
	}
	caller := p.caller.With(credential.Key)
	response, err := p.post(ctx, caller, chatCompletions, chat.Model, p.header(credential, call.native), call.body) //nolint:bodyclose // wire.Read closes it.
	if err != nil {
		return nil, err
	}
	text, err := wire.Read(ctx, response)
	if err != nil {
		return nil, err
	}
	answer, err := answerOf(caller, response.StatusCode, text)
	if err != nil {
		return nil, err
	}
	answer.Limits = caller.Limits(response)
	if call.native != nil {
		answer.Native = text
	}
	return answer, nil
}

// StreamChat asks for a streamed completion.
func (p *Provider) StreamChat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	call, err := p.call(chat, true)
	if err != nil {
		return nil, err
	}
	header := p.header(credential, call.native)
	header.Set("Accept", "text/event-stream")
	caller := p.caller.With(credential.Key)
	response, err := p.post(ctx, caller, chatCompletions, chat.Model, header, call.body) //nolint:bodyclose // The stream or wire.Read closes it.
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return newStream(ctx, caller, response.Body, call, caller.Limits(response)), nil
	}
	return nil, notStream(ctx, caller, response)
}

// notStream is the error of a stream's answer that is something else.
func notStream(ctx context.Context, caller *wire.Caller, response *http.Response) error {
	text, err := wire.Read(ctx, response)
	if err == nil {
		_, err = answerOf(caller, response.StatusCode, text)
	}
	if err == nil {
		err = wire.Malformed("the answer is not an event stream", nil)
	}
	return err
}

// The operations, by their paths.
const (
	chatCompletions  = "/chat/completions"
	embeddings       = "/embeddings"
	imageGenerations = "/images/generations"
)

// call is a chat as it is sent.
type call struct {
	body any
	// native is set when body is the caller's own.
	native *provider.Native
	// usageAsked: the caller wants the chunk that holds the usage.
	usageAsked bool
}

// call prefers the caller's own body where it is in the dialect.
func (p *Provider) call(chat *provider.Chat, stream bool) (call, error) {
	if chat.Native == nil || chat.Native.Dialect != DialectName {
		body, err := p.encode(chat, stream)
		if err != nil {
			return call{}, wire.Unencodable(err)
		}
		return call{body: body}, nil
	}
	body, asked, err := p.relay(chat, stream)
	return call{body: body, native: chat.Native, usageAsked: asked}, err
}
