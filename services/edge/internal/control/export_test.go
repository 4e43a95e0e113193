package control

// OperatorRoutes lists the operators' operations, as "VERB /path".
func OperatorRoutes() (routes []string) {
	for path, methods := range new(API).operatorRoutes() {
		for method := range methods {
			routes = append(routes, method+" "+path)
		}
	}
	return routes
}
