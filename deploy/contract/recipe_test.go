package contract_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/deploy/contract"
	"switchyard.dev/deploy/examples/recipes"
)

// beside are the routes that no contract has, by service.
var beside = map[string]string{
	"gateway": `
POST /v1/chat/completions
POST /v1/messages
POST /v1/messages/count_tokens
GET /v1/models
GET /console`,
	"webhook-egress": "",
	"notify": `
GET /v1/notifications/stream`,
	"edge": `
GET /product/v1/_meta/catalog
POST /admin/v1/keys
GET /admin/v1/keys
GET /admin/v1/keys/{id}
PATCH /admin/v1/keys/{id}
DELETE /admin/v1/keys/{id}
POST /admin/v1/keys/{id}/rotate
GET /admin/v1/organizations/{id}/rate-limit
PUT /admin/v1/organizations/{id}/rate-limit
DELETE /admin/v1/organizations/{id}/rate-limit
GET /admin/v1/audit
GET /admin/v1/usage`,
}

// everywhere are the routes of all services.
const everywhere = `
GET /openapi.json
GET /docs
GET /health
GET /health/live
GET /health/ready
GET /metrics`

// Every route has a recipe, and no recipe calls what isn't there. That they work
// is shown by the black-box tests, which run them.
func TestEveryRouteHasARecipe(t *testing.T) {
	for service, pkg := range map[string]protoreflect.FullName{
		"edge": "", "gateway": "switchyard.gateway.v1", "webhook-egress": "switchyard.webhooks.v1", "notify": "switchyard.notify.v1",
	} {
		script, err := recipes.Script(service)
		if err != nil {
			t.Fatal(err)
		}
		calls := recipes.Calls(script)
		routes := routesOf(t, service, pkg)
		shown := make([]bool, len(calls))
		for _, route := range routes {
			verb, path, _ := strings.Cut(route, " ")
			form, found := pattern(path), false
			for i, call := range calls {
				if call.Verb == verb && form.MatchString(call.Path) {
					found, shown[i] = true, true
				}
			}
			if !found {
				t.Errorf("%s: no recipe for %s", service, route)
			}
		}
		for i, call := range calls {
			if !shown[i] {
				t.Errorf("%s: a recipe calls %s %s, which is no route", service, call.Verb, call.Path)
			}
		}
		if len(routes) < 12 {
			t.Errorf("%s: only %d routes", service, len(routes))
		}
	}
}

// routesOf are a service's routes: its contract's, the customers', and those beside.
func routesOf(t *testing.T, service string, pkg protoreflect.FullName) (routes []string) {
	t.Helper()
	all, _ := contract.Operations(pkg)
	for _, o := range all {
		routes = append(routes, o.Verb+" "+o.Path)
	}
	for line := range strings.Lines(beside[service] + everywhere) {
		if line = strings.TrimSpace(line); line != "" {
			routes = append(routes, line)
		}
	}
	if service != "edge" {
		return routes
	}
	table, err := os.ReadFile("../../services/edge/internal/route/snapshot_v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range regexp.MustCompile(`- method: (\S+)\n +path: (\S+)`).FindAllStringSubmatch(string(table), -1) {
		routes = append(routes, route[1]+" "+route[2])
	}
	return routes
}

// pattern of a path: a parameter is one segment, whatever it holds. A recipe that
// spells out a word shows the route of that word alone.
func pattern(path string) *regexp.Regexp {
	form := regexp.MustCompile(`\\\{[^}]+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `(?:\$$[A-Z_]+|sandbox(?:-small)?|openai)`)
	return regexp.MustCompile("^" + form + "$")
}
