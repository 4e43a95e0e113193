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

// furtherRoutes holds the routes that are in no contract, by service.
var furtherRoutes = map[string]string{
	"gateway": `
POST /v1/chat/completions
POST /v1/responses
POST /v1/responses/compact
POST /v1/responses/input_tokens
GET /v1/responses
GET /v1/responses/{response_id}
DELETE /v1/responses/{response_id}
POST /v1/responses/{response_id}/cancel
GET /v1/responses/{response_id}/input_items
POST /v1/completions
POST /v1/moderations
POST /v1/audio/speech
POST /v1/audio/transcriptions
POST /v1/audio/translations
POST /v1/images/edits
POST /v1/images/variations
POST /v1/rerank
POST /v2/rerank
POST /v1/files
GET /v1/files
GET /v1/files/{file_id}
GET /v1/files/{file_id}/content
DELETE /v1/files/{file_id}
POST /v1/batches
GET /v1/batches
GET /v1/batches/{batch_id}
POST /v1/batches/{batch_id}/cancel
POST /openai/files
GET /openai/files
GET /openai/files/{file_id}
GET /openai/files/{file_id}/content
DELETE /openai/files/{file_id}
POST /openai/batches
GET /openai/batches
GET /openai/batches/{batch_id}
POST /openai/batches/{batch_id}/cancel
POST /openai/deployments/{model}/batches
POST /v1/messages/batches
GET /v1/messages/batches
GET /v1/messages/batches/{batch_id}
DELETE /v1/messages/batches/{batch_id}
POST /v1/messages/batches/{batch_id}/cancel
GET /v1/messages/batches/{batch_id}/results
POST /openai/responses
POST /openai/responses/compact
POST /openai/responses/input_tokens
GET /openai/responses/{response_id}
DELETE /openai/responses/{response_id}
POST /openai/responses/{response_id}/cancel
GET /openai/responses/{response_id}/input_items
POST /openai/deployments/{model}/chat/completions
POST /openai/deployments/{model}/embeddings
POST /openai/deployments/{model}/images/generations
POST /openai/deployments/{model}/completions
POST /openai/deployments/{model}/moderations
POST /openai/deployments/{model}/audio/speech
POST /openai/deployments/{model}/audio/transcriptions
POST /openai/deployments/{model}/audio/translations
POST /openai/deployments/{model}/images/edits
POST /openai/deployments/{model}/images/variations
POST /v1/messages
POST /v1/messages/count_tokens
GET /v1/models
POST /v1beta/models/{model}:generateContent
POST /v1beta/models/{model}:streamGenerateContent
POST /v1beta/models/{model}:embedContent
POST /v1beta/models/{model}:batchEmbedContents
POST /v1beta/models/{model}:countTokens
POST /v1/models/{model}:generateContent
POST /v1/models/{model}:streamGenerateContent
POST /v1/models/{model}:embedContent
POST /v1/models/{model}:batchEmbedContents
POST /v1/models/{model}:countTokens
GET /v1beta/models
GET /v1beta/models/{model}
GET /console`,
	"webhook-egress": "",
	"notify": `
GET /v1/notifications/stream`,
	"edge": `
GET /product/v1/_meta/catalog
GET /product/v1/_meta/limits
GET /product/v1/_meta/jwks
OPTIONS /product/v1/notifications/inbox
GET /docs.css
GET /docs.js
POST /admin/v1/portal/sessions
GET /portal/
GET /portal/open/{link}
GET /portal/api/session
DELETE /portal/api/session
POST /admin/v1/keys
GET /admin/v1/keys
GET /admin/v1/keys/{id}
PUT /admin/v1/keys/{id}
PATCH /admin/v1/keys/{id}
DELETE /admin/v1/keys/{id}
POST /admin/v1/keys/{id}/rotate
GET /admin/v1/organizations/{id}/rate-limit
PUT /admin/v1/organizations/{id}/rate-limit
DELETE /admin/v1/organizations/{id}/rate-limit
GET /admin/v1/organizations/{id}/plan
PUT /admin/v1/organizations/{id}/plan
DELETE /admin/v1/organizations/{id}/plan
GET /admin/v1/organizations/{id}/limits
GET /admin/v1/organizations/{id}/credits
POST /admin/v1/organizations/{id}/credits
GET /admin/v1/plans
GET /admin/v1/plans/{plan}
PUT /admin/v1/plans/{plan}
DELETE /admin/v1/plans/{plan}
POST /admin/v1/tokens
POST /admin/v1/tokens/revoke
POST /admin/v1/tokens/keys/rotate
GET /admin/v1/organizations/{id}/origins
PUT /admin/v1/organizations/{id}/origins
DELETE /admin/v1/organizations/{id}/origins
GET /admin/v1/audit
GET /admin/v1/usage
GET /admin/v1/exports
POST /admin/v1/exports/{id}/backfill
GET /admin/v1/exports/{id}/refusals`,
}

// commonRoutes are the routes of all services.
const commonRoutes = `
GET /
GET /openapi.json
GET /docs
GET /health
GET /health/live
GET /health/ready
GET /metrics`

// Every route has a recipe, and no recipe calls an unknown route. The black-box tests run the recipes and so check that
// they work.
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

// routesOf returns a service's routes: those of its contract, for the edge those of customers, and the further ones.
func routesOf(t *testing.T, service string, pkg protoreflect.FullName) (routes []string) {
	t.Helper()
	all, _ := contract.Operations(pkg)
	for _, o := range all {
		routes = append(routes, o.Verb+" "+o.Path)
	}
	for line := range strings.Lines(furtherRoutes[service] + commonRoutes) {
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

// pattern returns a regular expression for the calls of a path. A parameter is one segment: a variable of the shell, or
// one of the names that the recipes use.
func pattern(path string) *regexp.Regexp {
	form := regexp.MustCompile(`\\\{[^}]+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `(?:\$$[A-Z_]+|sandbox(?:-small)?|openai)`)
	return regexp.MustCompile("^" + form + "$")
}
