package control

import "switchyard.dev/services/edge/internal/chain"

// OperatorRoutes lists the operators' operations, as "VERB /path".
func OperatorRoutes() (routes []string) {
	for _, of := range []map[string]map[string]chain.Handler{new(API).operatorRoutes(), new(API).portalAdmin()} {
		for path, methods := range of {
			for method := range methods {
				routes = append(routes, method+" "+path)
			}
		}
	}
	return routes
}
