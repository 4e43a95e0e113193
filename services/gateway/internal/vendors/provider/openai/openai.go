// Package openai implements the dialect of OpenAI, which Azure and every OpenAI-compatible server (vLLM, Ollama, Groq,
// Mistral, …) use, too: chat completions, embeddings and images. Source: OpenAI API reference, "Chat", "Streaming",
// "Embeddings" and "Images".
package openai

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// DialectName is this dialect's name in settings and in [provider.Dialect]. A native request of the name is relayed as it came.
const DialectName = "openai"

// Provider is a configured vendor. Safe for concurrent use.
type Provider struct {
	settings provider.Settings
	traits   traits
	base     *url.URL
	caller   wire.Caller
}

// New returns a Provider, or an error if the base URL is not absolute or the style of reasoning is not known.
func New(settings provider.Settings) (*Provider, error) {
	base, err := wire.Base(settings.BaseURL)
	if err == nil {
		err = checkStyle(settings.ReasoningStyle)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case settings.APIVersion != "":
		query := base.Query()
		query.Set("api-version", settings.APIVersion)
		base.RawQuery = query.Encode()
		base.Path = strings.TrimSuffix(base.Path, "/openai") + "/openai/deployments/"
		if settings.KeyHeader == "" {
			settings.KeyHeader = "api-key"
		}
	case base.Path == "":
		base.Path = "/v1"
	}
	return &Provider{
		settings: settings, traits: traitsOf(base, settings), base: base,
		caller: wire.NewCaller(settings, "Authorization", classify),
	}, nil
}

// Name returns the provider's name in the policy.
func (p *Provider) Name() string { return p.settings.Name }

// deployment matches the names that Azure allows for deployments; they become a part of the path.
var deployment = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// endpoint returns the URL of an operation of a model.
func (p *Provider) endpoint(operation, model string) (*url.URL, error) {
	at := *p.base
	if p.settings.APIVersion != "" {
		if !deployment.MatchString(model) {
			return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "model: is not the name of a deployment"}
		}
		at.Path += model
	}
	at.Path += operation
	return &at, nil
}

// betaHeader is the only header that is passed on with a native body: others select who pays (OpenAI-Organization,
// OpenAI-Project) or change HTTP.
const betaHeader = "OpenAI-Beta"

// header returns the headers of a call. Those of a native body never authenticate.
func header(native *provider.Native) http.Header {
	h := http.Header{}
	if native != nil {
		for name, value := range native.Headers {
			if strings.EqualFold(name, betaHeader) {
				h.Set(betaHeader, value)
			}
		}
	}
	return h
}

// post sends a body to an operation of a model and returns the response once its head has arrived.
func (p *Provider) post(ctx context.Context, caller *wire.Caller, operation, model string, header http.Header, body any) (*http.Response, error) {
	at, err := p.endpoint(operation, model)
	if err != nil {
		return nil, err
	}
	return caller.Post(ctx, at, header, body)
}

// ask posts a body and reads the whole answer.
func (p *Provider) ask(ctx context.Context, credential provider.Credential, operation, model string, body any) (reply, error) {
	caller := p.caller.With(credential)
	response, err := p.post(ctx, caller, operation, model, header(nil), body) //nolint:bodyclose // wire.Read closes it.
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

// Chat requests a whole completion.
func (p *Provider) Chat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	if p.isResponses(chat) {
		return p.respond(ctx, credential, chat)
	}
	if p.isCompaction(chat) {
		if answer, err := p.compact(ctx, credential, chat); !lacksPath(err) {
			return answer, err
		}
	}
	call, err := p.call(chat, false)
	if err != nil {
		return nil, err
	}
	caller := p.caller.With(credential)
	response, err := p.post(ctx, caller, chatCompletions, chat.Model, header(call.native), call.body) //nolint:bodyclose // wire.Read closes it.
	if err != nil {
		return nil, err
	}
	text, err := wire.Read(ctx, response)
	if err != nil {
		return nil, err
	}
	answer, err := answerOf(caller, response.StatusCode, text, p.keeps(call))
	if err != nil {
		return nil, err
	}
	answer.Limits = caller.Limits(response)
	if call.native != nil {
		answer.Native = text
	}
	return answer, nil
}

// StreamChat requests a streamed completion.
func (p *Provider) StreamChat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	if p.isResponses(chat) {
		return p.streamResponse(ctx, credential, chat)
	}
	call, err := p.call(chat, true)
	if err != nil {
		return nil, err
	}
	header := header(call.native)
	header.Set("Accept", "text/event-stream")
	caller := p.caller.With(credential)
	response, err := p.post(ctx, caller, chatCompletions, chat.Model, header, call.body) //nolint:bodyclose // The stream or wire.Read closes it.
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return newStream(ctx, caller, response.Body, call, caller.Limits(response), p.keeps(call)), nil
	}
	return nil, notStream(ctx, caller, response)
}

// keeps returns the provider's name, under which the answer's first call keeps the reasoning. It is empty for a native
// request, whose caller gets the reasoning as the server wrote it.
func (p *Provider) keeps(call call) string {
	if call.native != nil {
		return ""
	}
	return p.Name()
}

// notStream returns the error of an answer that is not an event stream though one was requested.
func notStream(ctx context.Context, caller *wire.Caller, response *http.Response) error {
	text, err := wire.Read(ctx, response)
	if err == nil {
		_, err = answerOf(caller, response.StatusCode, text, "")
	}
	if err == nil {
		err = wire.Malformed("the answer is not an event stream", nil)
	}
	return err
}

// The paths of the operations.
const (
	chatCompletions  = "/chat/completions"
	embeddings       = "/embeddings"
	imageGenerations = "/images/generations"
	responses        = "/responses"
)

// call is a chat in the form in which it is sent.
type call struct {
	body any
	// native is set if body is the caller's own.
	native *provider.Native
	// usageAsked reports that the caller wants the chunk that holds the usage.
	usageAsked bool
}

// call returns the caller's own body if it is in this dialect, or else encodes the chat.
func (p *Provider) call(chat *provider.Chat, stream bool) (call, error) {
	if chat.Native == nil || chat.Native.Dialect != DialectName {
		if err := p.checkFiles(chat.Messages); err != nil {
			return call{}, err
		}
		body, err := p.encode(chat, stream)
		return call{body: body}, err
	}
	body, asked, err := p.relay(chat, stream)
	return call{body: body, native: chat.Native, usageAsked: asked}, err
}
