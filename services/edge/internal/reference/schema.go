package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"switchyard.dev/services/edge/internal/route"
)

// document is what the page takes of an OpenAPI 3.1 document.
type document struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	OperationID string `json:"operationId"`
	Summary     string
	Description string
	Security    []map[string][]string
	Parameters  []parameter
	RequestBody struct{ Content map[string]media }
	Responses   map[string]struct {
		Description string
		Content     map[string]media
	}
}

type media struct{ Schema schema }

// inHeader is the place of parameters that any request may have.
const inHeader = "header"

type parameter struct {
	Name, In, Description string
	Required              bool
	Schema                schema
}

// schema is what the page takes of a JSON Schema (draft 2020-12).
type schema struct {
	Ref         string `json:"$ref"`
	Type        any    // a name or a list of names
	Format      string
	Description string
	Properties  map[string]schema
	Required    []string
	Items       *schema
	Values      *schema `json:"additionalProperties"`
	Enum        []any
	Pattern     string

	MinLength, MaxLength         *int64
	Minimum, Maximum             *float64
	MinItems, MaxItems           *int64
	UniqueItems                  bool
	MinProperties, MaxProperties *int64
}

// field is a row of a table: a parameter, or a field of a body. The name of a field within another begins with that
// one's; "[]" stands for each item of a list.
type field struct {
	Name, Type, Meaning string
	Bounds              []string
	Required            bool
}

func (d document) operation(r route.Route) (operation, bool) {
	o, ok := d.Paths[strings.Replace(r.Path, "...}", "}", 1)][strings.ToLower(r.Method)]
	return o, ok
}

// metaPrefix begins the paths of operations of the edge itself.
const metaPrefix = "/product/v1/_meta/"

// meta returns the operations of the edge itself, in the order of their paths.
func (d document) meta() (all []meta) {
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			if !strings.HasPrefix(path, metaPrefix) {
				continue
			}
			o := d.Paths[path][method]
			_, answer := d.content(o.Responses["200"].Content)
			all = append(all, meta{o.OperationID, strings.ToUpper(method), path, o.Summary, len(o.Security) == 0, answer})
		}
	}
	return all
}

// content returns the media types of a body, and the fields of the one that is JSON.
func (d document) content(types map[string]media) (names string, fields []field) {
	names = strings.Join(slices.Sorted(maps.Keys(types)), ", ")
	return names, d.fields(types["application/json"].Schema, "", 0)
}

// maxDepth bounds how deep the fields of a schema are listed, which may refer to itself.
const maxDepth = 4

// fields lists the properties of a schema in the order of their names, those that are required first.
func (d document) fields(s schema, prefix string, depth int) (all []field) {
	s = d.resolved(s)
	if s.Items != nil {
		return d.fields(*s.Items, prefix+"[]", depth)
	}
	if depth == maxDepth {
		return nil
	}
	names := slices.Sorted(maps.Keys(s.Properties))
	slices.SortStableFunc(names, func(a, b string) int { return rank(s.Required, a) - rank(s.Required, b) })
	for _, name := range names {
		property := d.resolved(s.Properties[name])
		f := property.field(strings.TrimPrefix(prefix+"."+name, "."))
		f.Required = slices.Contains(s.Required, name)
		all = append(all, f)
		all = append(all, d.fields(property, f.Name, depth+1)...)
	}
	return all
}

func rank(required []string, name string) int {
	if slices.Contains(required, name) {
		return 0
	}
	return 1
}

// resolved returns the schema that s refers to, with the description beside the reference if there is one.
func (d document) resolved(s schema) schema {
	name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/")
	if !ok {
		return s
	}
	target := d.Components.Schemas[name]
	if s.Description != "" {
		target.Description = s.Description
	}
	return target
}

func (p parameter) field() field {
	f := p.Schema.field(p.Name)
	f.Meaning, f.Required = p.Description, p.Required
	return f
}

func (s schema) field(name string) field {
	return field{Name: name, Type: s.typeName(), Meaning: s.Description, Bounds: s.bounds()}
}

func (s schema) typeName() string {
	name := ""
	switch kind := s.Type.(type) {
	case string:
		name = kind
	case []any:
		name = strings.Join(words(kind), " or ")
	}
	switch {
	case s.Items != nil && s.Items.Ref == "":
		return "list of " + s.Items.typeName()
	case s.Items != nil:
		return "list of object"
	case name == "" && (s.Properties != nil || s.Ref != ""):
		return "object"
	case name == "":
		return "any JSON"
	case s.Format != "":
		return name + " (" + s.Format + ")"
	}
	return name
}

// bounds returns the rules of a schema in words.
func (s schema) bounds() (rules []string) {
	add := func(rule string) {
		if rule != "" {
			rules = append(rules, rule)
		}
	}
	add(span(s.MinLength, s.MaxLength, "characters"))
	add(span(s.Minimum, s.Maximum, ""))
	add(span(s.MinItems, s.MaxItems, "items"))
	add(span(s.MinProperties, s.MaxProperties, "entries"))
	if s.UniqueItems {
		add("each once")
	}
	if len(s.Enum) > 0 {
		add("one of " + strings.Join(words(s.Enum), ", "))
	}
	if s.Pattern != "" {
		add(patternText(s.Pattern))
	}
	for _, within := range []*schema{s.Items, s.Values} {
		if within != nil && within.Ref == "" {
			for _, rule := range within.bounds() {
				add("each " + rule)
			}
		}
	}
	return rules
}

// span returns the range of a number in words; empty without a bound.
func span[T int64 | float64](low, high *T, unit string) string {
	var text string
	switch {
	case low != nil && high != nil:
		text = fmt.Sprintf("%s to %s", number(*low), number(*high))
	case low != nil:
		text = "at least " + number(*low)
	case high != nil:
		text = "at most " + number(*high)
	default:
		return ""
	}
	return strings.TrimSpace(text + " " + unit)
}

func number[T int64 | float64](n T) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.6f", float64(n)), "0"), ".")
}

func words(values []any) (all []string) {
	for _, value := range values {
		all = append(all, fmt.Sprint(value))
	}
	return all
}
