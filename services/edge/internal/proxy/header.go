package proxy

import (
	"net/http"
	"strings"

	"switchyard.dev/services/platform/caller"
)

// passed are the request headers that reach a service. Everything else stays
// outside: credentials, whatever claims an identity, X-Forwarded-*, hop-by-hop
// headers. traceparent is the edge's to set.
var passed = []string{
	"Accept", "Content-Type",
	caller.HeaderOwner, caller.HeaderUser, caller.HeaderRun, caller.HeaderRequest, caller.HeaderIdempotency,
	"Anthropic-Version", "Anthropic-Beta",
	product + "Goal", product + "Provider", product + "Byok", product + "Allow-Substitution", product + "Classification",
	product + "Locale", product + "Language-Mode", product + "Cache", product + "Approval-Ref",
}

// returned are the response headers that reach a customer, beside those that
// begin with product. X-Request-Id is on every answer of the edge already.
var returned = []string{
	"Content-Type", "Content-Encoding", "Content-Disposition", "Cache-Control", "Etag", "Last-Modified",
	"Retry-After", "X-Should-Retry", "Idempotent-Replayed", "Deprecation", "Sunset",
}

const product = "X-Switchyard-"

// request are the headers of the call to a service: what may pass of the
// customer's, and who the edge says it is. A header that came twice passes once.
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

// response copies what may reach the customer.
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
