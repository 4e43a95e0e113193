package control

import (
	"maps"
	"strings"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/route"
)

// Routes lists the operations of operators and of services, as "VERB /path".
func Routes() []string {
	all := new(API).operatorRoutes()
	maps.Copy(all, new(API).serviceRoutes())
	return list(all)
}

// PortalRoutes lists the operations of operators on the portal.
func PortalRoutes() []string { return list(new(API).portalAdmin()) }

func list(all map[string]map[string]chain.Handler) (routes []string) {
	for path, methods := range all {
		for method := range methods {
			routes = append(routes, method+" "+path)
		}
	}
	return routes
}

// ConsoleRoutes lists what needs a session of the console, as "VERB /path" with values in place of names.
func ConsoleRoutes(table route.Table) []string {
	routes := []string{"GET " + consoleAPI + "/session", "DELETE " + consoleAPI + "/session", "GET " + consoleAPI + "/organizations"}
	for _, r := range list(new(API).operatorRoutes()) {
		method, path, _ := strings.Cut(r, " ")
		routes = append(routes, method+" "+consoleAPI+route.Route{Path: path}.Filled("one"))
	}
	for _, r := range table.Routes {
		if table.Dialect(r.Path) == "" && !r.WebSocket && r.Scope != apikey.MintTokens && r.Scope != apikey.DecideOwn {
			routes = append(routes, r.Method+" "+consoleAPI+"/organizations/acme"+r.Filled("one"))
		}
	}
	routes = append(routes, "GET "+consoleAPI+"/organizations/acme/product/v1/_meta/limits")
	for _, r := range everyOrganization {
		routes = append(routes, r.Method+" "+consoleAPI+r.Path)
	}
	for method, paths := range map[string][]string{"GET": gatewayGet, "POST": gatewayPost, "PUT": gatewayPut} {
		for _, path := range paths {
			routes = append(routes, method+" "+gatewayPrefix+route.Route{Path: path}.Filled("one"))
		}
	}
	return routes
}
