package inference

import (
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// describe tells the planner what the request asks of a model, and which others
// share a prompt cache with it. It is done here, once for every face, so that
// none can forget it.
func describe(r *Request) {
	dialect, field := r.Route.Needs.Dialect, r.Route.Needs.DialectField
	switch r.Route.Operation {
	case provider.OperationEmbeddings:
		r.Route.Needs = routing.EmbeddingNeeds(&r.Embedding)
	case provider.OperationImages:
		r.Route.Needs = routing.ImageNeeds(&r.ImageRequest)
	default:
		r.Route.Needs = routing.ChatNeeds(&r.Chat)
		r.Route.Affinity = routing.Affinity(r.Organization, r.Run, &r.Chat)
	}
	r.Route.Needs.Dialect, r.Route.Needs.DialectField = dialect, field
	r.Route.Organization, r.Route.Run = r.Organization, r.Run
}
