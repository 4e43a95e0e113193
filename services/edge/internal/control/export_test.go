package control

import (
	"maps"

	"switchyard.dev/services/edge/internal/chain"
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
