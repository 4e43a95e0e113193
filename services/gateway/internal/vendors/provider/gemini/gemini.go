// Package gemini implements Google's generateContent dialect: chat, embeddings and images. Source: Gemini API
// reference, version v1beta, and the types of Google's own client (google.golang.org/genai).
package gemini

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// keyHeader carries the key. The vendor accepts it in the URL, too, where every proxy and every error would show it.
const keyHeader = "X-Goog-Api-Key"

// Provider is a configured vendor. Safe for concurrent use.
type Provider struct {
	settings provider.Settings
	base     *url.URL
	caller   wire.Caller
}

// New returns a Provider, or an error if the base URL is not absolute or contains a key.
func New(settings provider.Settings) (*Provider, error) {
	base, err := wire.Base(settings.BaseURL)
	if err != nil {
		return nil, err
	}
	if base.Path == "" {
		base.Path = "/v1beta"
	}
	return &Provider{
		settings: settings, base: base,
		caller: wire.NewCaller(settings, keyHeader, Classify),
	}, nil
}

// Name returns the provider's name in the policy.
func (p *Provider) Name() string { return p.settings.Name }

// FetchesImages implements provider.ImageFetcher: the vendor accepts the bytes of images, not their URLs.
func (p *Provider) FetchesImages() bool { return false }

// url returns the URL of a model's method. The model is one segment of the path, whatever its name contains.
func (p *Provider) url(model, method string) *url.URL {
	return p.base.JoinPath("models", url.PathEscape(bare(model))+":"+method)
}

// bare returns a model's name without the collection in which the vendor lists it.
func bare(model string) string { return strings.TrimPrefix(model, "models/") }

// call posts to a method and reads the whole answer.
func (p *Provider) call(ctx context.Context, credential provider.Credential, u *url.URL, body any) (gjson.Result, provider.Limits, error) {
	_, root, limits, err := p.callText(ctx, credential, u, body)
	return root, limits, err
}

// callText is call with the text of the answer, as long as which root is valid.
func (p *Provider) callText(ctx context.Context, credential provider.Credential, u *url.URL, body any) (
	text []byte, root gjson.Result, limits provider.Limits, err error,
) {
	caller := p.caller.With(credential)
	response, err := caller.Post(ctx, u, http.Header{}, body) //nolint:bodyclose // read closes it.
	if err != nil {
		return nil, root, limits, err
	}
	text, root, err = read(ctx, caller, response)
	return text, root, caller.Limits(response), err
}

// read reads a whole answer, which may turn out to be an error. root is valid as long as text.
func read(ctx context.Context, caller *wire.Caller, response *http.Response) (text []byte, root gjson.Result, err error) {
	if text, err = wire.Read(ctx, response); err != nil {
		return nil, root, err
	}
	root, err = parse(caller, response.StatusCode, text)
	return text, root, err
}

// parse parses JSON that may turn out to be an error; the result is valid as long as text.
func parse(caller *wire.Caller, status int, text []byte) (gjson.Result, error) {
	if !jsoncheck.Valid(text) {
		return gjson.Result{}, wire.Malformed("the answer is not the JSON expected", nil)
	}
	root := wire.ParseView(text)
	if failed(root) {
		return root, caller.Refused(status, text)
	}
	return root, nil
}

// Chat requests a whole answer.
func (p *Provider) Chat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	body, err := body(chat)
	if err != nil {
		return nil, err
	}
	text, root, limits, err := p.callText(ctx, credential, p.url(chat.Model, "generateContent"), body)
	if err != nil {
		return nil, err
	}
	answer, err := decode(root)
	if err != nil {
		return nil, err
	}
	answer.Limits = limits
	if native(chat) {
		answer.Native = text
	}
	return answer, nil
}

// StreamChat requests a streamed answer.
func (p *Provider) StreamChat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	body, err := body(chat)
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	h.Set("Accept", "text/event-stream")
	caller := p.caller.With(credential)
	u := p.url(chat.Model, "streamGenerateContent")
	query := u.Query()
	query.Set("alt", "sse")
	u.RawQuery = query.Encode()
	response, err := caller.Post(ctx, u, h, body) //nolint:bodyclose // The stream or read closes it.
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return newStream(ctx, caller, response, native(chat)), nil
	}
	if _, _, err := read(ctx, caller, response); err != nil {
		return nil, err
	}
	return nil, wire.Malformed("the answer is not an event stream", nil)
}
