// Package bedrock implements the dialect of Amazon Bedrock's runtime: chats by Converse, the Messages of Claude as their
// callers wrote them by InvokeModel, and the embeddings of Titan and Cohere. Source: Amazon Bedrock API reference,
// "Amazon Bedrock Runtime", and the types of aws-sdk-go-v2/service/bedrockruntime.
package bedrock

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/eventstream"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// DialectName is this dialect's name in settings and in [provider.Dialect].
const DialectName = "bedrock"

// defaultMaxTokens is sent if neither the request nor the configuration sets a limit: without one the vendor takes the
// model's largest output off the account's quota until the answer has ended. The oldest models refuse more.
const defaultMaxTokens = 4096

// The operations of a model, as its path has them.
const (
	converse       = "converse"
	converseStream = "converse-stream"
	invoke         = "invoke"
	invokeStream   = "invoke-with-response-stream"
	countTokens    = "count-tokens"
)

// Provider is a configured vendor. Safe for concurrent use.
type Provider struct {
	settings provider.Settings
	base     *url.URL
	caller   wire.Caller
}

// New returns a Provider, or an error if the base URL is not absolute.
func New(settings provider.Settings) (*Provider, error) {
	base, err := wire.Base(settings.BaseURL)
	if err != nil {
		return nil, err
	}
	return &Provider{settings: settings, base: base, caller: wire.NewCaller(settings, "Authorization", classify)}, nil
}

// Name returns the provider's name in the policy.
func (p *Provider) Name() string { return p.settings.Name }

// FetchesImages implements provider.ImageFetcher.
func (p *Provider) FetchesImages() bool { return false }

// at returns the URL of a model's operation. A model is one segment of the path, whatever is in its name: an ARN has
// slashes.
func (p *Provider) at(model, operation string) (*url.URL, error) {
	if slices.ContainsFunc(strings.Split(model, "/"), func(part string) bool { return part == "" || part == "." || part == ".." }) {
		return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "model: is not the name of a model of this provider"}
	}
	at := *p.base
	at.Path += "/model/" + model + "/" + operation
	at.RawPath = p.base.EscapedPath() + "/model/" + strings.ReplaceAll(url.QueryEscape(model), "+", "%20") + "/" + operation
	return &at, nil
}

// post sends a body to a model's operation.
func (p *Provider) post(ctx context.Context, caller *wire.Caller, model, operation string, body any) (*http.Response, error) {
	at, err := p.at(model, operation)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Accept": {"application/json"}}
	switch operation {
	case invokeStream:
		header.Set("X-Amzn-Bedrock-Accept", "application/json")
		fallthrough
	case converseStream:
		header.Set("Accept", eventstream.MediaType)
	}
	return caller.Post(ctx, at, header, body)
}

// Chat requests a whole answer.
func (p *Provider) Chat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	operation, body, err := p.request(chat, false)
	if err != nil {
		return nil, err
	}
	caller := p.caller.With(credential)
	response, err := p.post(ctx, caller, chat.Model, operation, body) //nolint:bodyclose // What reads the answer closes it.
	if err != nil {
		return nil, err
	}
	if native(chat) {
		return anthropic.ReadAnswer(ctx, caller, response, true)
	}
	return readAnswer(ctx, response, isClaude(chat.Model))
}

// StreamChat requests a streamed answer.
func (p *Provider) StreamChat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	operation, body, err := p.request(chat, true)
	if err != nil {
		return nil, err
	}
	caller := p.caller.With(credential)
	response, err := p.post(ctx, caller, chat.Model, operation, body) //nolint:bodyclose // The stream or Read closes it.
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), eventstream.MediaType) {
		if _, err := wire.Read(ctx, response); err != nil {
			return nil, err
		}
		return nil, wire.Malformed("the answer is not an event stream", nil)
	}
	events := &events{
		ctx: ctx, caller: caller, Reader: eventstream.NewReader(response.Body).Charge(memory.FromContext(ctx)),
	}
	if native(chat) {
		return anthropic.NewStream(ctx, caller, response, &chunks{events: events}, true), nil
	}
	return newStream(events, response, isClaude(chat.Model)), nil
}

// Omitted implements provider.Omitter.
func (p *Provider) Omitted(chat *provider.Chat) []string { return anthropic.Omitted(chat) }

// CanRelay implements provider.Relaying.
func (p *Provider) CanRelay(chat *provider.Chat) bool { return anthropic.CanRelay(chat) }

// native reports whether the caller wrote the body in the form that the model takes.
func native(chat *provider.Chat) bool {
	return chat.Native != nil && chat.Native.Dialect == anthropic.DialectName && isClaude(chat.Model)
}

// request returns the operation that answers a chat, and its body: the caller's own, or one encoded from the parsed
// fields.
func (p *Provider) request(chat *provider.Chat, stream bool) (operation string, body any, err error) {
	operations := [2]string{converse, converseStream}
	if native(chat) {
		operations = [2]string{invoke, invokeStream}
		body, err = invocation(chat)
	} else {
		body, err = encode(chat, p.settings.OutputLimits[chat.Model])
	}
	if stream {
		return operations[1], body, err
	}
	return operations[0], body, err
}
