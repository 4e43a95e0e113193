package proxy

import (
	"net/http"
	"strings"

	"switchyard.dev/services/platform/caller"
)

// passed are the request headers that reach a service. All others are dropped: credentials, identities, X-Forwarded-*,
// hop-by-hop headers. The edge sets traceparent itself. Owner, user and run narrow a request within the customer's own
// organization, which the key alone determines.
var passed = []string{
	"Accept", "Content-Type",
	caller.HeaderOwner, caller.HeaderUser, caller.HeaderRun, caller.HeaderRequest, caller.HeaderIdempotency,
	"Anthropic-Version", "Anthropic-Beta",
	product + "Goal", product + "Provider", product + "Byok", product + "Allow-Substitution", product + "Classification",
	product + "Locale", product + "Language-Mode", product + "Cache", product + "Approval-Ref",
}

// returned are the response headers that reach a customer, in addition to those that begin with product. The edge
// sets X-Request-Id on every response itself.
var returned = []string{
	"Content-Type", "Content-Encoding", "Content-Disposition", "Cache-Control", "Etag", "Last-Modified",
	"Retry-After", "X-Should-Retry", "Idempotent-Replayed", "Deprecation", "Sunset",
}

const product = "X-Switchyard-"

// request returns the headers of the call to a service: the customer's allowed ones, and the identity that the edge
// has verified. A repeated header passes once.
func request(inbound http.Header, token string, call Call) http.Header {
	h := make(http.Header, len(passed)+4)
	for _, name := range passed {
		if value := inbound.Get(name); value != "" {
			h[name] = []string{value}
		}
	}
	h["Authorization"] = []string{"Bearer " + token}
	h[caller.HeaderOrganization] = []string{call.Organization}
	h[caller.HeaderKey] = []string{call.Key}
	if call.Dialect != "" {
		h[product+"Dialect"] = []string{call.Dialect}
	}
	h["User-Agent"] = []string{"switchyard-edge"}
	return h
}

// response copies the headers that may reach the customer.
func response(to, from http.Header) {
	for _, name := range returned {
		if values := from[name]; len(values) > 0 {
			to[name] = values
		}
	}
	for name, values := range from {
		if strings.HasPrefix(name, product) {
			to[name] = values
		}
	}
}
