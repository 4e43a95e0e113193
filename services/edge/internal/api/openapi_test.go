package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/edge/internal/route"
)

// document is what a test looks at of an OpenAPI document.
type document struct {
	OpenAPI    string `json:"openapi"`
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]any }
}

type operation struct {
	OperationID string `json:"operationId"`
	Summary     string
	Security    []map[string]any
	RequestBody struct {
		Content map[string]struct {
			Example any
			Schema  struct {
				Ref string `json:"$ref"`
			}
		}
	} `json:"requestBody"`
	Responses  map[string]any
	Parameters []struct{ Name, In string }
	Extra      struct {
		Products          []string
		Permission, Scope string
	} `json:"x-switchyard"`
}

// The document has exactly the routes of the catalog and the catalog itself, and
// everything that it refers to.
func TestOpenAPI(t *testing.T) {
	x := newWorld(t)
	w := x.do(t, "GET", "/openapi.json", "", "")
	text := w.Body.String()
	var got document
	if err := json.Unmarshal([]byte(text), &got); err != nil || w.Code != 200 || got.OpenAPI != "3.1.0" {
		t.Fatalf("%d %q: %v", w.Code, got.OpenAPI, err)
	}
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	for _, r := range table.Routes {
		o, ok := got.Paths[strings.Replace(r.Path, "...", "", 1)][strings.ToLower(r.Method)]
		if !ok {
			t.Errorf("%s %s is not in the document", r.Method, r.Path)
		}
		schemes := 1
		if r.Scope.ForEndUsers() {
			schemes = 2
		}
		if o.Summary == "" || len(o.Security) != schemes {
			t.Errorf("%s %s: summary %q, security %v, want a summary and %d schemes", r.Method, r.Path, o.Summary, o.Security, schemes)
		}
		if len(o.Extra.Products) != len(r.Products) {
			t.Errorf("%s %s: products %q, want %q", r.Method, r.Path, o.Extra.Products, r.Products)
		}
		if o.Extra.Permission != string(r.Permission) || o.Extra.Scope != string(r.Scope) {
			t.Errorf("%s %s: permission %q and scope %q, want %q and %q", r.Method, r.Path, o.Extra.Permission, o.Extra.Scope, r.Permission, r.Scope)
		}
		var query []string
		for _, p := range o.Parameters {
			if p.In == "query" {
				query = append(query, p.Name)
			}
		}
		if diff := cmp.Diff(r.Query, query, cmpopts.SortSlices(strings.Compare), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s %s: query (-want +got):\n%s", r.Method, r.Path, diff)
		}
		if ids[o.OperationID] {
			t.Errorf("%s %s: operation %s is there twice", r.Method, r.Path, o.OperationID)
		}
		ids[o.OperationID] = true
		success := "200"
		if r.WebSocket {
			success = "101"
		}
		if own, ok := map[string]string{"/product/v1/tokens": "201", "/product/v1/tokens/revoke": "204"}[r.Path]; ok {
			success = own
		}
		for _, status := range []string{success, "401", "403", "429", "503"} {
			if o.Responses[status] == nil {
				t.Errorf("%s: no %s", r.Path, status)
			}
		}
		if _, isForm := o.RequestBody.Content["multipart/form-data"]; isForm != r.Form {
			t.Errorf("%s: takes a form is %t, want %t", r.Path, isForm, r.Form)
		}
		body := o.RequestBody.Content["application/json"]
		if r.HasBody() && !r.Form && body.Example == nil {
			t.Errorf("%s: no example", r.Path)
		}
		schema, _ := got.Components.Schemas[strings.TrimPrefix(body.Schema.Ref, "#/components/schemas/")].(map[string]any)
		required, _ := schema["required"].([]any)
		example, _ := body.Example.(map[string]any)
		for _, name := range required {
			if field, _ := name.(string); example[field] == nil {
				t.Errorf("%s: the example lacks %s, which is required", r.Path, field)
			}
		}
	}
	paths := make(map[string]bool)
	for _, r := range table.Routes {
		paths[r.Path] = true
	}
	if len(got.Paths) != len(paths)+3 {
		t.Errorf("%d paths, want the catalog's %d, the catalog, the keys of tokens and the limits of a key", len(got.Paths), len(paths))
	}
	if len(got.Paths["/product/v1/_meta/limits"]["get"].Security) != 1 {
		t.Error("the limits of a key are open")
	}
	for _, open := range []string{"/product/v1/_meta/catalog", "/product/v1/_meta/jwks"} {
		if o, ok := got.Paths[open]["get"]; !ok || len(o.Security) != 0 {
			t.Errorf("%s: in the document %v, security %v, want none", open, ok, o.Security)
		}
	}
	const to = `"#/components/schemas/`
	for rest := text; strings.Contains(rest, to); {
		_, after, _ := strings.Cut(rest, to)
		name, more, _ := strings.Cut(after, `"`)
		if schema, ok := got.Components.Schemas[name].(map[string]any); !ok || len(schema) == 0 {
			t.Errorf("no schema %s", name)
		}
		rest = more
	}
	for _, internal := range []string{"/v1/llm/chat", "/admin/", "blast-radius", "X-Organization-Id\""} {
		if strings.Contains(text, internal) {
			t.Errorf("the customers' document names the internal %s", internal)
		}
	}
	if w := x.do(t, "POST", "/docs", "", ""); w.Code != 405 {
		t.Errorf("POST /docs: %d", w.Code)
	}
}
