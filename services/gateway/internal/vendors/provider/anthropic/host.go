package anthropic

import (
	"net/http"
	"net/url"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// Host describes a host of Claude that differs from Anthropic's own API in its URLs, and takes the version in the body.
type Host struct {
	// Messages returns the URL for messages of a model, and Count the one for counts of tokens.
	Messages func(model string, stream bool) *url.URL
	Count    func() *url.URL
	// Version is sent as the body's anthropic_version; the body names no model.
	Version string
	// KeyHeader is the header that carries an API key.
	KeyHeader string
	Classify  wire.Classify
}

// NewAt returns a Provider at another host.
func NewAt(settings provider.Settings, host Host) *Provider {
	return &Provider{settings: settings, host: host, caller: wire.NewCaller(settings, host.KeyHeader, host.Classify)}
}

// own returns Anthropic's own API.
func own(base *url.URL) Host {
	messages := base.JoinPath("messages")
	return Host{
		Messages:  func(string, bool) *url.URL { return messages },
		Count:     func() *url.URL { return messages.JoinPath(countTokens) },
		KeyHeader: "X-Api-Key", Classify: Classify,
	}
}

// members returns what a native body gets: its model, or the version in place of it.
func (h *Host) members(model string) []wire.Member {
	if h.Version != "" {
		return []wire.Member{{Name: "model"}, {Name: "anthropic_version", Value: quote(h.Version)}}
	}
	return []wire.Member{{Name: "model", Value: quote(model)}}
}

// header returns the headers of a call: of the caller's only the version and the beta features that its body is written
// for. A host that takes the version in the body gets no header for it.
func (h *Host) header(body *provider.Native) http.Header {
	header := http.Header{}
	if h.Version == "" {
		header.Set("Anthropic-Version", apiVersion)
	}
	if body == nil || body.Dialect != DialectName {
		return header
	}
	for name, value := range body.Headers {
		if name = http.CanonicalHeaderKey(name); value != "" && (name == "Anthropic-Version" && h.Version == "" || name == "Anthropic-Beta") {
			header.Set(name, value)
		}
	}
	return header
}
