package inference

import (
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// describe sets what the request needs of a model, and its key for prompt cache affinity, for the planner. The pipeline
// does it once, for the requests of every face.
func describe(r *Request) {
	asked := r.Route.Needs
	switch {
	case r.Relay != nil:
		r.Route.Needs = routing.RelayNeeds(r.Relay)
	case r.Route.Operation == provider.OperationEmbeddings:
		r.Route.Needs = routing.EmbeddingNeeds(&r.Embedding)
	case r.Route.Operation == provider.OperationImages:
		r.Route.Needs = routing.ImageNeeds(&r.ImageRequest)
	default:
		r.Route.Needs = routing.ChatNeeds(&r.Chat)
		r.Route.Affinity = routing.Affinity(r.Organization, r.Run, &r.Chat)
	}
	r.Route.Needs.Dialect, r.Route.Needs.DialectField = asked.Dialect, asked.DialectField
	r.Route.Needs.Form, r.Route.Needs.Offered, r.Route.Needs.Compacted = asked.Form, asked.Offered, asked.Compacted
	r.Route.Organization, r.Route.Run = r.Organization, r.Run
}
