package apidoc

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

// Icon is Switchyard's icon, an SVG image of type IconType, for the pages of services.
//
//go:embed icon.svg
var Icon []byte

// IconType is the media type of Icon.
const IconType = "image/svg+xml"

// Page returns a handler that serves an OpenAPI 3.1 document as one HTML page. The page has no scripts and loads no
// other resources.
func Page(document []byte) (http.Handler, error) {
	var d struct {
		Info       struct{ Title, Version, Description string }
		Paths      map[string]map[string]Object
		Components struct{ Schemas map[string]Object }
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}
	var operations []pageOperation
	for path, methods := range d.Paths {
		for method, operation := range methods {
			operations = append(operations, pageOperation{Method: strings.ToUpper(method), Path: path, Operation: operation})
		}
	}
	slices.SortFunc(operations, func(a, b pageOperation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	layout, err := template.New("page").Funcs(template.FuncMap{"fields": fields, "schema": shown, "sorted": sorted}).Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("parse page: %w", err)
	}
	var out bytes.Buffer
	err = layout.Execute(&out, map[string]any{
		"Info": d.Info, "Operations": operations, "Schemas": d.Components.Schemas, "Style": template.CSS(pageStyle), //nolint:gosec // It is part of the package.
	})
	if err != nil {
		return nil, fmt.Errorf("render page: %w", err)
	}
	sum := sha256.Sum256([]byte(pageStyle))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return Fixed("text/html; charset=utf-8", out.Bytes(), "Content-Security-Policy", policy, "Referrer-Policy", "no-referrer"), nil
}

type pageOperation struct {
	Method, Path string
	Operation    Object
}

// ID returns the operation's anchor.
func (o pageOperation) ID() string {
	return strings.Trim(strings.NewReplacer("/", "-", "{", "", "}", "", ".", "").Replace(strings.ToLower(o.Method)+o.Path), "-")
}

// pageField is a row of a schema's table.
type pageField struct{ Name, Type, Ref, Description string }

// fields returns the properties of a schema, sorted by name.
func fields(schema Object) (all []pageField) {
	properties, _ := schema["properties"].(Object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(Object)
		kind, target := shownType(property)
		text, _ := property["description"].(string)
		all = append(all, pageField{name, kind, target, text})
	}
	return all
}

// shown returns the type of a request's or response's content.
func shown(content any) pageField {
	types, _ := content.(Object)
	for _, name := range slices.Sorted(maps.Keys(types)) {
		media, _ := types[name].(Object)
		schema, _ := media["schema"].(Object)
		kind, target := shownType(schema)
		return pageField{Name: name, Type: kind, Ref: target}
	}
	return pageField{}
}

// shownType returns the text of a schema's type, and the name of the schema that it refers to.
func shownType(schema Object) (kind, target string) {
	if name, ok := schema["$ref"].(string); ok {
		name = name[strings.LastIndex(name, "/")+1:]
		return name, name
	}
	if items, ok := schema["items"].(Object); ok {
		kind, target = shownType(items)
		return "array of " + kind, target
	}
	kind, _ = schema["type"].(string)
	if format, ok := schema["format"].(string); ok {
		kind += " (" + format + ")"
	}
	return cmp.Or(kind, "any JSON"), ""
}

// sorted returns the names of an object in order.
func sorted(o any) []string {
	object, _ := o.(Object)
	return slices.Sorted(maps.Keys(object))
}
