// Package apidoc converts the Swagger 2.0 documents generated from the contracts into the OpenAPI 3.1 document of an
// HTTP face, and serves it together with an HTML page. A service's api package chooses the operations. It has the words of
// the contracts' patterns.
package apidoc

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Object is a JSON object of a document.
type Object = map[string]any

// Document is an OpenAPI 3.1 document that is being built.
type Document struct {
	root            Object
	paths           Object
	schemas         Object
	schemaOf        map[string]string // names of imported schemas, by source and name in the source
	SecuritySchemes Object
}

// New returns a document without operations.
func New(title, version, description string) *Document {
	d := &Document{paths: Object{}, schemas: Object{}, schemaOf: make(map[string]string), SecuritySchemes: Object{}}
	d.root = Object{
		"openapi": "3.1.0", "info": Object{"title": title, "version": version, "description": description},
		"servers": []any{Object{"url": "/"}}, "paths": d.paths,
		"components": Object{"schemas": d.schemas, "securitySchemes": d.SecuritySchemes},
	}
	return d
}

// Add adds an operation at a path. The case of method doesn't matter.
func (d *Document) Add(method, path string, operation Object) {
	item, ok := d.paths[path].(Object)
	if !ok {
		item = Object{}
		d.paths[path] = item
	}
	item[strings.ToLower(method)] = operation
}

// AddSchema adds a component schema and returns a reference to it.
func (d *Document) AddSchema(name string, schema Object) Object {
	d.schemas[name] = schema
	return ref(name)
}

func ref(name string) Object { return Object{"$ref": "#/components/schemas/" + name} }

// JSON returns the document as text. The same content always gives the same text.
func (d *Document) JSON() ([]byte, error) {
	text, err := json.Marshal(d.root)
	if err != nil {
		return nil, fmt.Errorf("encode OpenAPI document: %w", err)
	}
	return text, nil
}

// Source is a Swagger 2.0 document as written by protoc-gen-openapiv2.
type Source struct {
	name  string
	Paths map[string]map[string]Object `json:"paths"`
	// Definitions are its schemas by name.
	Definitions Object `json:"definitions"`
}

// Read parses a source. Its name distinguishes schemas of the same name in different sources.
func Read(name string, text []byte) (*Source, error) {
	s := &Source{name: name}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read OpenAPI document of %s: %w", name, err)
	}
	return s, nil
}

// Rewrite puts f of each summary and description in its place.
func (s *Source) Rewrite(f func(string) string) {
	for _, operations := range s.Paths {
		for _, operation := range operations {
			rewrite(operation, f)
		}
	}
	rewrite(s.Definitions, f)
}

func rewrite(node any, f func(string) string) {
	switch n := node.(type) {
	case []any:
		for _, item := range n {
			rewrite(item, f)
		}
	case Object:
		for name, value := range n {
			text, ok := value.(string)
			if ok && (name == "description" || name == "summary") {
				n[name] = f(text)
				continue
			}
			rewrite(value, f)
		}
	}
}

// Import copies an operation of a source and the schemas that it refers to. It reports false if the source has no such
// operation. Add the operation to a path with Add.
func (d *Document) Import(s *Source, method, path string) (Object, bool) {
	from, ok := s.Paths[path][strings.ToLower(method)]
	if !ok {
		return nil, false
	}
	to := Object{"responses": Object{}}
	for _, name := range []string{"operationId", "tags"} {
		if value, ok := from[name]; ok {
			to[name] = value
		}
	}
	summary, rest, _ := strings.Cut(join(from["summary"], from["description"]), ". ")
	to["summary"], to["description"] = strings.TrimSuffix(summary, "."), rest
	parameters, _ := from["parameters"].([]any)
	for _, p := range parameters {
		d.parameter(s, to, p)
	}
	responses, _ := from["responses"].(Object)
	for status, r := range responses {
		response, _ := r.(Object)
		copied := Object{"description": response["description"]}
		if schema, ok := response["schema"]; ok {
			copied["content"] = Object{"application/json": Object{"schema": d.schema(s, schema)}}
		}
		into, _ := to["responses"].(Object)
		into[status] = copied
	}
	return to, true
}

// join returns the summary and the description as one text on one line.
func join(summary, description any) string {
	var parts []string
	for _, part := range []any{summary, description} {
		if text, ok := part.(string); ok && text != "" {
			parts = append(parts, text)
		}
	}
	return strings.ReplaceAll(strings.Join(parts, "\n"), "\n", " ")
}

// parameter copies a parameter. A body becomes the requestBody; the type of any other parameter moves into a schema.
func (d *Document) parameter(s *Source, to Object, p any) {
	from, _ := p.(Object)
	if from["in"] == "body" {
		to["requestBody"] = Object{"required": true, "content": Object{"application/json": Object{"schema": d.schema(s, from["schema"])}}}
		return
	}
	copied, schema := Object{}, Object{}
	for name, value := range from {
		switch name {
		case "name", "in", "required", "description":
			copied[name] = value
		case "collectionFormat":
		default:
			schema[name] = value
		}
	}
	copied["schema"] = d.schema(s, schema)
	list, _ := to["parameters"].([]any)
	to["parameters"] = append(list, copied)
}

const definitions = "#/definitions/"

// schema copies a schema at any depth, and the schemas that it refers to.
func (d *Document) schema(s *Source, node any) any {
	switch n := node.(type) {
	case Object:
		if target, ok := n["$ref"].(string); ok {
			return ref(d.definition(s, strings.TrimPrefix(target, definitions)))
		}
		copied := make(Object, len(n))
		for name, child := range n {
			copied[name] = d.schema(s, child)
		}
		return copied
	case []any:
		copied := make([]any, len(n))
		for i, child := range n {
			copied[i] = d.schema(s, child)
		}
		return copied
	}
	return node
}

// definition adds a source's schema to the components and returns its name there: the name without the package version,
// preceded by the source's name if that name is taken.
func (d *Document) definition(s *Source, name string) string {
	known := s.name + " " + name
	if done, ok := d.schemaOf[known]; ok {
		return done
	}
	short := strings.TrimPrefix(name, "v1")
	if _, taken := d.schemas[short]; taken {
		short = strings.ToUpper(s.name[:1]) + s.name[1:] + short
	}
	d.schemaOf[known] = short
	d.schemas[short] = Object{} // A schema may refer to itself.
	if copied, ok := d.schema(s, s.Definitions[name]).(Object); ok {
		d.schemas[short] = maps.Clone(copied)
	}
	return short
}
