package api

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/gen"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apidoc"
)

// contracts are the OpenAPI documents of the services behind the edge, by upstream.
var contracts = map[string]string{"gateway": "gateway", "webhook-egress": "webhooks", "notify": "notify"}

const description = "What customers may call with a product API key, and their end users with a token. Open: the catalog and the keys of tokens. " +
	"Every answer has X-Request-Id; where a rate limit or a plan holds, RateLimit and RateLimit-Policy say what is left."

// newDocument returns the OpenAPI document of the served routes: the contract's own operations, at the customers'
// paths.
func newDocument(table route.Table) ([]byte, error) {
	d := apidoc.New("Switchyard product API", table.Version, description)
	d.SecuritySchemes["key"] = apidoc.Object{"type": "http", "scheme": "bearer", "description": "A product API key: swy_<environment>_…"}
	d.SecuritySchemes["token"] = apidoc.Object{
		"type": "http", "scheme": "bearer", "bearerFormat": "JWT",
		"description": "A short-lived token of an end user, for pages and devices: swt_…. The call is bound to its user.",
	}
	failures := map[string]any{
		"": d.AddSchema("Error", ownError()), route.DialectOpenAI: d.AddSchema("OpenAIError", openAIError()),
		route.DialectAnthropic: d.AddSchema("AnthropicError", anthropicError()),
		route.DialectGemini:    d.AddSchema("GeminiError", geminiErrorSchema()),
	}
	failures[route.DialectAzure] = failures[route.DialectOpenAI]
	plain, jsonRPC := d.AddSchema("PlainError", plainError()), d.AddSchema("JSONRPCError", jsonRPCError())
	sources := make(map[string]*apidoc.Source)
	for upstream, face := range contracts {
		text, err := fs.ReadFile(gen.OpenAPI, "openapi/"+face+".swagger.json")
		if err != nil {
			return nil, fmt.Errorf("contract of %s: %w", face, err)
		}
		if sources[upstream], err = apidoc.Read(face, text); err != nil {
			return nil, err
		}
		sources[upstream].Rewrite(table.ForCustomers)
	}
	for _, r := range table.Routes {
		dialect := table.Dialect(r.Path)
		operation := newOperation(d, sources[r.Upstream], r, dialect)
		failure := failures[dialect]
		if table.PlainErrors(r.Path) {
			failure = plain
		}
		if table.JSONRPCErrors(r.Path) {
			failure = jsonRPC
		}
		if err := complete(operation, r, failure); err != nil {
			return nil, fmt.Errorf("route %s: %w", r.Path, err)
		}
		d.Add(r.Method, strings.Replace(r.Path, "...}", "}", 1), operation)
	}
	d.Add(http.MethodGet, catalogPath, catalogOperation())
	d.Add(http.MethodGet, limitsPath, limitsOperation(failures[""]))
	d.Add(http.MethodGet, keysPath, keysOperation())
	return d.JSON()
}

// newOperation returns the contract's operation if the route is one of its operations without a dialect. Otherwise it
// returns a generic operation, because another API defines it.
func newOperation(d *apidoc.Document, s *apidoc.Source, r route.Route, dialect string) apidoc.Object {
	if operation, ok := ownOperation(r); ok {
		return operation
	}
	if s != nil && dialect == "" {
		if operation, ok := d.Import(s, r.Method, r.Target); ok {
			return operation
		}
	}
	operation := apidoc.Object{"responses": apidoc.Object{"200": apidoc.Object{
		"description": "As the API of that name answers; with `stream: true` as server-sent events.",
		"content":     apidoc.Object{"application/json": apidoc.Object{"schema": apidoc.Object{"type": "object"}}},
	}}}
	if r.WebSocket {
		operation["responses"] = apidoc.Object{
			"101": apidoc.Object{"description": "The connection is open. Its messages are those of the API's WebSocket mode."},
			"426": apidoc.Object{"description": "The request asks for no upgrade, or WebSockets are off."},
		}
	}
	if r.EventStream {
		operation["responses"] = apidoc.Object{"200": apidoc.Object{
			"description": "Server-sent events, until either side ends the stream.",
			"content":     apidoc.Object{"text/event-stream": apidoc.Object{"schema": apidoc.Object{"type": "string"}}},
		}}
	}
	if r.HasBody() {
		content := apidoc.Object{}
		if r.Form {
			content["multipart/form-data"] = apidoc.Object{"schema": apidoc.Object{"type": "object"}}
		}
		if r.Example != "" {
			content["application/json"] = apidoc.Object{"schema": apidoc.Object{"type": "object"}}
		}
		operation["requestBody"] = apidoc.Object{"required": true, "content": content}
	}
	if _, name, ok := r.Rest(); ok {
		operation["parameters"] = []any{apidoc.Object{
			"name": name, "in": "path", "required": true, "description": "May hold slashes.", "schema": apidoc.Object{"type": "string"},
		}}
	}
	for _, name := range r.Names() {
		parameters, _ := operation["parameters"].([]any)
		operation["parameters"] = append(parameters, apidoc.Object{
			"name": name, "in": "path", "required": true, "schema": apidoc.Object{"type": "string"},
		})
	}
	for _, name := range r.Query {
		parameters, _ := operation["parameters"].([]any)
		operation["parameters"] = append(parameters, apidoc.Object{"name": name, "in": "query", "schema": apidoc.Object{"type": "string"}})
	}
	return operation
}

// refusals are the error responses of the edge itself.
var refusals = map[string]string{
	"400": "A field is unknown, missing or out of range; the reason names it.",
	"401": "No valid API key or token.",
	"403": "The key's product, permission or scopes do not include this, the body names another organization, or the user or the page's origin is not the token's.",
	"413": "The body is too large.",
	"429": "The key or its organization has made too many requests, has used up its plan, or holds too many large bodies; " +
		"Retry-After says when to retry.",
	"502": "The service behind the edge ended the call early.",
	"503": "The service behind the edge, or what it needs, is unavailable; Retry-After says when to retry.",
	"504": "The service behind the edge did not answer in time.",
}

// headers are the request headers that a customer may send with any call.
var headers = map[string]string{
	"X-Request-Id":    "Names the request in logs and traces; the answer has it too. One that is not [A-Za-z0-9._:-]{1,128} is replaced.",
	"Idempotency-Key": "A repeat of a call with the same key has no further effect, where the operation says so.",
	"X-Owner-Id":      "Narrows the call to an owner within the organization.",
	"X-User-Id":       "The user that the call is for.",
	"Last-Event-ID":   "The id of the last event that was received, for a stream of events to resume after it.",
	"X-Run-Id":        "The run or session that the call belongs to.",
}

// complete adds the edge's own parameters, responses and metadata to an operation.
func complete(operation apidoc.Object, r route.Route, failure any) error {
	operation["operationId"] = operationID(r)
	operation["summary"] = strings.TrimSuffix(r.Summary, ".")
	security := []any{apidoc.Object{"key": []any{}}}
	if r.Scope.ForEndUsers() {
		security = append(security, apidoc.Object{"token": []any{}})
	}
	operation["security"] = security
	operation["tags"] = []any{r.Upstream}
	operation["x-switchyard"] = apidoc.Object{"products": r.Products, "permission": r.Permission, "scope": r.Scope, "metric": r.Metric}
	responses, _ := operation["responses"].(apidoc.Object)
	for status, meaning := range refusals {
		responses[status] = apidoc.Object{"description": meaning, "content": apidoc.Object{"application/json": apidoc.Object{"schema": failure}}}
	}
	parameters := passedOn(operation, r)
	for _, name := range sortedKeys(headers) {
		parameters = append(parameters, apidoc.Object{"name": name, "in": "header", "description": headers[name], "schema": apidoc.Object{"type": "string"}})
	}
	operation["parameters"] = parameters
	if r.Example == "" {
		return nil
	}
	var example any
	if err := json.Unmarshal([]byte(r.Example), &example); err != nil {
		return fmt.Errorf("example: %w", err)
	}
	body, _ := operation["requestBody"].(apidoc.Object)
	content, _ := body["content"].(apidoc.Object)
	media, _ := content["application/json"].(apidoc.Object)
	if media == nil {
		return fmt.Errorf("the contract has no body at %s %s", r.Method, r.Target)
	}
	media["example"] = example
	verb := ""
	if r.Method != http.MethodPost {
		verb = "-X " + r.Method + " "
	}
	operation["x-example"] = "curl " + verb + "$EDGE_URL" + r.Path + " -H \"Authorization: Bearer $KEY\" -d '" + r.Example + "'"
	return nil
}

// passedOn returns the parameters of an operation without those of the query that the route does not pass on.
func passedOn(operation apidoc.Object, r route.Route) []any {
	parameters, _ := operation["parameters"].([]any)
	return slices.DeleteFunc(parameters, func(p any) bool {
		parameter, _ := p.(apidoc.Object)
		name, _ := parameter["name"].(string)
		return parameter["in"] == "query" && !slices.Contains(r.Query, name)
	})
}

func operationID(r route.Route) string {
	words := strings.FieldsFunc(strings.TrimPrefix(r.Path, "/product/v1/"), func(c rune) bool { return strings.ContainsRune("/{}._:", c) })
	return strings.ToLower(r.Method) + "_" + strings.Join(words, "_")
}

func catalogOperation() apidoc.Object {
	return apidoc.Object{
		"operationId": "get_catalog", "summary": "The routes that are served, with products, permission, scope and billing metric", "tags": []any{"edge"},
		"responses": apidoc.Object{
			"200": apidoc.Object{"description": "The catalog.", "content": apidoc.Object{"application/json": apidoc.Object{"schema": apidoc.Object{"type": "object"}}}},
			"304": apidoc.Object{"description": "Unchanged since the version in If-None-Match."},
		},
	}
}

func keysOperation() apidoc.Object {
	return apidoc.Object{
		"operationId": "get_jwks", "summary": "The public keys that verify tokens of end users (RFC 7517)", "tags": []any{"edge"},
		"responses": apidoc.Object{"200": apidoc.Object{
			"description": "The key set. Tokens begin with swt_, before their JWS.",
			"content":     apidoc.Object{"application/jwk-set+json": apidoc.Object{"schema": apidoc.Object{"type": "object"}}},
		}},
	}
}
