package control

import (
	"net/http"

	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/edge/internal/route"
)

// toolReview is what a page says when an operator reviews the definition of a tool, or all that wait at a server.
type toolReview struct {
	Digest        string `json:"digest,omitempty"`
	ListingDigest string `json:"listing_digest,omitempty"`
	Decision      string `json:"decision"`
	Reason        string `json:"reason,omitempty"`
	// AllOrganizations says that the server is one of all organizations.
	AllOrganizations bool `json:"all_organizations,omitempty"`
}

// reviewedBy returns the field that names the session's person in a review.
func reviewedBy(_ *portal.Session, name string) map[string]string {
	return map[string]string{"reviewed_by": name}
}

const toolServers = "/tools/servers"

// toolRoutes returns what the console's pages of tools call, by path and method: in an organization's place for its own
// servers, and in none's for those of all organizations. Registrations hold credentials, and are made by their contract.
func (p *Portal) toolRoutes() map[string]map[string]sessionHandler {
	if p.Upstreams[upstreamGateway] == nil {
		return nil
	}
	pass := func(method, path, target string, query ...string) sessionHandler {
		return p.pass(route.Route{Method: method, Path: path, Upstream: upstreamGateway, Target: target, Timeout: consoleTime, Query: query}, unheld, nil)
	}
	const (
		server  = toolServers + "/{server_id}"
		tools   = server + "/tools"
		refresh = server + "/refresh"
		review  = server + "/review"
		one     = tools + "/{tool}/review"
		calls   = "/tools/calls"
		at      = "/v1/mcp/servers"
	)
	there := func(path string) string { return at + path[len(toolServers):] }
	return map[string]map[string]sessionHandler{
		toolServers: {http.MethodGet: pass(http.MethodGet, toolServers, at, "all_organizations", "limit", "cursor")},
		server:      {http.MethodGet: pass(http.MethodGet, server, there(server), "all_organizations")},
		tools:       {http.MethodGet: pass(http.MethodGet, tools, there(tools), "all_organizations", "status", "limit", "cursor")},
		refresh:     {http.MethodPost: pass(http.MethodPost, refresh, there(refresh))},
		review:      {http.MethodPost: inOwnName[toolReview](reviewedBy, pass(http.MethodPost, review, there(review)))},
		one:         {http.MethodPost: inOwnName[toolReview](reviewedBy, pass(http.MethodPost, one, there(one)))},
		calls:       {http.MethodGet: pass(http.MethodGet, calls, "/v1/usage", "provider", "since", "until", "limit", "cursor")},
	}
}
