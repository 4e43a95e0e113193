// Package anthropic implements Anthropic's Messages dialect. Source: Anthropic API reference, "Messages" and "Streaming
// Messages", version 2023-06-01.
package anthropic

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// DialectName is this dialect's name in settings and in [provider.Dialect]. A native request of the name is relayed as it came.
const DialectName = "anthropic"

const apiVersion = "2023-06-01"

// defaultMaxTokens is sent if neither the request nor the configuration sets a limit: the dialect requires one. It is
// below the limits of current models.
const defaultMaxTokens = 8192

// Provider is a configured vendor. Safe for concurrent use.
type Provider struct {
	settings provider.Settings
	host     Host
	caller   wire.Caller
	// base is the URL of batch jobs' parent, at Anthropic's own API.
	base *url.URL
	// batches reports whether the server runs batch jobs.
	batches bool
}

// New returns a Provider, or an error if the base URL is not absolute.
func New(settings provider.Settings) (*Provider, error) {
	base, err := wire.Base(settings.BaseURL)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(base.Path, "/v1") {
		base.Path += "/v1"
	}
	batches := base.Hostname() == "api.anthropic.com"
	if settings.Batches != nil {
		batches = *settings.Batches
	}
	p := NewAt(settings, own(base))
	p.base, p.batches = base.JoinPath("messages"), batches
	return p, nil
}

// Name returns the provider's name in the policy.
func (p *Provider) Name() string { return p.settings.Name }

// Chat requests a whole message.
func (p *Provider) Chat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	body, err := p.body(chat, false)
	if err != nil {
		return nil, err
	}
	caller := p.caller.With(credential)
	response, err := caller.Post(ctx, p.host.Messages(chat.Model, false), p.host.header(chat.Native), body) //nolint:bodyclose // ReadAnswer closes it.
	if err != nil {
		return nil, err
	}
	return ReadAnswer(ctx, caller, response, native(chat))
}

// StreamChat requests a streamed message.
func (p *Provider) StreamChat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	body, err := p.body(chat, true)
	if err != nil {
		return nil, err
	}
	h := p.host.header(chat.Native)
	h.Set("Accept", "text/event-stream")
	caller := p.caller.With(credential)
	response, err := caller.Post(ctx, p.host.Messages(chat.Model, true), h, body) //nolint:bodyclose // The stream or read closes it.
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		events := sse.NewReader(response.Body).Charge(memory.FromContext(ctx))
		return NewStream(ctx, caller, response, events, native(chat)), nil
	}
	if _, _, err := read(ctx, caller, response); err != nil {
		return nil, err
	}
	return nil, wire.Malformed("the answer is not an event stream", nil)
}

// Omitted implements provider.Omitter.
func (p *Provider) Omitted(chat *provider.Chat) []string { return Omitted(chat) }

// native tells that the caller wrote the body in this dialect.
func native(chat *provider.Chat) bool {
	return chat.Native != nil && chat.Native.Dialect == DialectName
}

// body returns the body to send: the caller's own, or one encoded from the parsed fields.
func (p *Provider) body(chat *provider.Chat, stream bool) (any, error) {
	if native(chat) {
		return Relay(chat, append(p.host.members(chat.Model), wire.Member{Name: "stream", Value: strconv.FormatBool(stream)})...)
	}
	body, err := encode(chat, stream, p.settings.OutputLimits[chat.Model])
	if err == nil && p.host.Version != "" {
		body.Model, body.Version = "", p.host.Version
	}
	return body, err
}
