package cohere

import (
	"context"
	"net/http"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// DialectName is this dialect's name in settings. A relayed call of the name passes as it came.
const DialectName = "cohere"

// PathRerank is the path of the reranker.
const PathRerank = "/rerank"

// Relay implements provider.Relayer.
func (p *Provider) Relay(ctx context.Context, credential provider.Credential, call *provider.Relay) (provider.RelayStream, error) {
	return p.caller.With(credential).Relay(ctx, p.base.JoinPath(call.Path), http.Header{}, call, meter{})
}

// meter reads the answer of a reranker.
type meter struct{}

// Read implements wire.Meter.
func (meter) Read(a *wire.Answer) (event provider.Event, leftOut bool) {
	if searches, ok := wire.Tokens(a.JSON.Get("meta.billed_units.search_units")); ok {
		event.Usage = &provider.Usage{Searches: searches}
	}
	return event, false
}
