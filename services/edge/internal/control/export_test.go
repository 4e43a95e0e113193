package control

import "maps"

// Routes lists the operations of operators and of services, as "VERB /path".
func Routes() (routes []string) {
	all := new(API).operatorRoutes()
	maps.Copy(all, new(API).serviceRoutes())
	for path, methods := range all {
		for method := range methods {
			routes = append(routes, method+" "+path)
		}
	}
	return routes
}
