package proxy

import (
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/services/platform/caller"
)

// passed are the request headers that reach a service, in canonical form. All others are dropped: credentials,
// identities, terms of keys, X-Forwarded-*, hop-by-hop headers. The edge sets traceparent itself. Owner, user and run narrow a request
// within the customer's own organization, which the key alone determines.
var passed = []string{
	"Accept", "Content-Type", "If-None-Match", "Last-Event-Id",
	caller.HeaderOwner, caller.HeaderUser, caller.HeaderRun, caller.HeaderRequest, caller.HeaderIdempotency,
	"Anthropic-Version", "Anthropic-Beta", "Openai-Beta", mcp + "Protocol-Version", mcp + "Session-Id",
	product + "Goal", product + "Provider", product + "Byok", product + "Allow-Substitution", product + "Classification",
	product + "Locale", product + "Language-Mode", product + "Cache", product + "Approval-Ref", product + "Tags",
}

// passedOfUser are those of a call with an end user's token, which alone says who calls.
var passedOfUser = []string{"Accept", "Content-Type", "If-None-Match", "Last-Event-Id", caller.HeaderRequest, caller.HeaderIdempotency}

// returned are the response headers that reach a customer, in addition to those that begin with product. The edge
// sets X-Request-Id on every response itself. By Etag and If-None-Match a caller revalidates what it has; no service sets
// Last-Modified or serves ranges.
var returned = []string{
	"Content-Type", "Content-Encoding", "Content-Disposition", "Cache-Control", "Etag",
	"Retry-After", "X-Should-Retry", "X-Accel-Buffering", "Idempotent-Replayed", "Idempotency-Mismatch", "Deprecation", "Sunset",
	"Allow", mcp + "Session-Id",
}

const product = "X-Switchyard-"

// mcp begins the headers by which clients of the Model Context Protocol mirror their requests.
const mcp = "Mcp-"

// maxMirrored bounds the headers that mirror arguments of a tool.
const maxMirrored = 64

// request returns the headers of the call to a service: the customer's allowed ones, and the identity that the edge
// has verified. A repeated header passes once.
func request(inbound http.Header, authorization string, call Call) http.Header {
	h := outbound{make(http.Header, usual), make([]string, 0, usual+min(1, len(call.Terms)))}
	names := passed
	if call.User != "" {
		names = passedOfUser
		h.set(caller.HeaderUser, call.User)
	}
	if call.Verified {
		h.set(caller.HeaderUserVerified, caller.Verified)
	}
	if call.Owner != "" {
		h.set(caller.HeaderOwner, call.Owner)
	}
	if call.Owner != "" || call.OwnerSession {
		h.set(caller.HeaderOwnerSession, caller.Verified)
	}
	for _, name := range names {
		if values := inbound[name]; len(values) > 0 && values[0] != "" {
			h.set(name, values[0])
		}
	}
	if len(inbound[mcp+"Method"]) > 0 {
		h.setMirrored(inbound)
	}
	h.set("Authorization", authorization)
	h.set(caller.HeaderOrganization, call.Organization)
	h.set(caller.HeaderKey, call.Key)
	if call.Terms != "" {
		h.set(caller.HeaderKeyTerms, call.Terms)
	}
	if call.Metric != "" {
		h.set(caller.HeaderCountMetric, call.Metric)
	}
	if call.Dialect != "" {
		h.set(product+"Dialect", call.Dialect)
	}
	h.set("User-Agent", "switchyard-edge")
	return h.header
}

// usual is how many headers most calls have.
const usual = 9

// outbound is a header under construction, whose values share an array.
type outbound struct {
	header http.Header
	values []string
}

func (o *outbound) set(name, value string) {
	o.values = append(o.values, value)
	last := len(o.values)
	o.header[name] = o.values[last-1 : last : last]
}

// setMirrored sets the headers that mirror a request for a tool: the service compares them with the body.
func (o *outbound) setMirrored(inbound http.Header) {
	mirrored := 0
	for name, values := range inbound {
		switch {
		case name == mcp+"Method", name == mcp+"Name":
		case strings.HasPrefix(name, mcp+"Param-") && mirrored < maxMirrored:
			mirrored++
		default:
			continue
		}
		o.set(name, values[0])
	}
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

// trailers copies the trailers that may reach the customer: those that begin with product, such as the cost of streamed
// sound, which is known only at its end.
func trailers(to, from http.Header) {
	for name, values := range from {
		if strings.HasPrefix(name, product) {
			to[http.TrailerPrefix+name] = values
		}
	}
}

// ofConnection are the headers that are between two peers (RFC 9110, section 7.6.1), and those that net/http sets itself.
var ofConnection = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Content-Length",
}

// endToEnd copies the headers that a relay passes on unchanged.
func endToEnd(to, from http.Header) {
	for name, values := range from {
		if !slices.Contains(ofConnection, name) && !named(from["Connection"], name) {
			to[name] = values
		}
	}
}

// named reports whether a Connection header names another header as one of the connection.
func named(connection []string, name string) bool {
	for _, list := range connection {
		for one := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(one), name) {
				return true
			}
		}
	}
	return false
}

// request returns the headers of a call to the service.
func (x *Relay) request(inbound http.Header, call Call) http.Header {
	if !x.plain {
		return request(inbound, x.authorization.Reveal(), call)
	}
	h := make(http.Header, len(inbound))
	endToEnd(h, inbound)
	return h
}

// response copies the headers of the service's answer that may reach the caller.
func (x *Relay) response(to, from http.Header) {
	if x.plain {
		endToEnd(to, from)
		return
	}
	response(to, from)
}
