// Package schema converts JSON schemas to the keywords that a vendor enforces. It expresses other keywords differently,
// moves them into the description, or returns an error, so that another vendor serves the request.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/screen"
)

// Keyword says how a vendor supports a keyword of JSON schema. The zero value means not at all: a schema with the
// keyword is refused.
type Keyword int

// The kinds of support.
const (
	// Taken keywords are sent unchanged.
	Taken Keyword = iota + 1
	// Dropped keywords are left out, because they don't affect validity.
	Dropped
	// Described keywords become a part of the description.
	Described
	// Schema, List and Object keywords hold a schema, a list of schemas or an object whose values are schemas. Boolean
	// keywords hold true, false or a schema.
	Schema
	List
	Object
	Boolean
	// Union keywords are sent as anyOf.
	Union
	// Single keywords hold a list of schemas. A list of one is sent as anyOf; longer lists are refused.
	Single
	// Constant keywords are sent as an enum of one value.
	Constant
	// Plain keywords are sent if they hold a scalar or a list of scalars, and refused otherwise.
	Plain
	// FewItems keywords are sent with the values 0 and 1, and Described with others.
	FewItems
	// Format keywords are sent with the formats in Rules.Formats, and Pattern keywords with simple patterns. Otherwise
	// they are Described.
	Format
	Pattern
	// Reference keywords refer to a definition at the root of the schema. See Rules.LoneReferences.
	Reference
)

// maxDepth bounds the nesting of a schema that is converted.
const maxDepth = 32

// Rules describes what a vendor accepts in schemas that it enforces.
type Rules struct {
	Keywords map[string]Keyword
	// Formats lists the values of "format" that the vendor enforces.
	Formats []string
	// Closed reports whether every object must set additionalProperties to false. AllRequired reports whether every
	// object must require all properties that it lists.
	Closed, AllRequired bool
	// NoRecursion reports whether a definition must not refer to itself, directly or through others.
	NoRecursion bool
	// LoneReferences reports whether a schema with a reference has no other keywords, apart from keywords that begin
	// with "$". With others, the reference is sent as anyOf with one schema.
	LoneReferences bool
}

// Convert returns a schema in the form that the vendor accepts, or an error that names the keyword that the vendor
// can't enforce. field is the schema's path in the request. An empty schema stays empty.
func (r *Rules) Convert(field string, schema json.RawMessage) (json.RawMessage, error) {
	if len(schema) == 0 {
		return schema, nil
	}
	if !jsoncheck.Valid(schema) {
		return nil, &provider.Error{Class: apierr.ClassPolicy, Text: field + ": is not valid JSON"}
	}
	c := converter{rules: r, field: field}
	out := c.convert(schema)
	return out, c.err
}

// Equal reports whether two schemas are the same JSON apart from white space.
func Equal(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// Measure returns the size of a schema in the form that Convert returns; the size is zero if Convert returns an error.
func (r *Rules) Measure(schema json.RawMessage) Size {
	if !jsoncheck.Valid(schema) {
		return Size{}
	}
	c := converter{rules: r}
	if c.convert(schema); c.err != nil {
		return Size{}
	}
	return c.size
}

// Size is how many parts of a schema make it expensive to enforce.
type Size struct {
	// Optional is how many properties are not required. Unions is how many schemas have anyOf or a list of types.
	Optional, Unions int
}

// converter walks a schema and keeps the first error. path is the current position; its names are joined only for an
// error, because they may be long.
type converter struct {
	rules *Rules
	field string
	path  []string
	err   error
	// definition is the name of the definition that is being converted; empty outside of definitions.
	definition string
	references references
	size       Size
}

func (c *converter) convert(schema json.RawMessage) []byte {
	out := c.schema(make([]byte, 0, len(schema)+64), wire.ParseView(schema), 0)
	if c.err == nil && c.rules.NoRecursion && c.references.cyclic() {
		c.refuse("this provider has no recursive schemas")
	}
	return out
}

// maxPath bounds a path in an error, in bytes.
const maxPath = 500

func (c *converter) refuse(format string, args ...any) {
	if c.err != nil {
		return
	}
	path := []byte(c.field)
	for _, name := range c.path {
		if len(path) < maxPath {
			path = append(path, name[:min(len(name), maxPath)]...)
		}
	}
	c.err = provider.Unsupported(wire.Shorten(string(path)), fmt.Sprintf(format, args...))
}

// under runs do with name appended to the path.
func (c *converter) under(name string, do func() []byte) []byte {
	c.path = append(c.path, ".", name)
	out := do()
	c.path = c.path[:len(c.path)-2]
	return out
}

func (c *converter) schema(out []byte, schema gjson.Result, depth int) []byte {
	switch {
	case depth > maxDepth:
		if c.err == nil {
			c.err = provider.Unsupported(c.field, fmt.Sprintf("is nested deeper than %d levels", maxDepth))
		}
		return out
	case !schema.IsObject():
		c.refuse("this provider wants an object as schema")
		return out
	}
	o := c.outline(schema)
	c.checkObject(&o, depth)
	if o.union > 0 || o.types {
		c.size.Unions++
	}
	begin := len(out) + 1
	out = c.members(out, schema, func(out []byte, key, value gjson.Result) []byte {
		if c.kindOf(key.Str, value) == 0 {
			c.refuse("this provider has no keyword %s", screen.Quote(key.Str))
			return out
		}
		return c.under(key.Str, func() []byte { return c.keyword(out, &o, key, value, depth) })
	})
	if c.err != nil {
		return out
	}
	out = out[:len(out)-1]
	if o.notes != nil && !o.described {
		out = append(comma(out, begin), `"description":`...)
		out = append(out, o.description("")...)
	}
	if c.rules.Closed && o.object && !o.closed {
		out = append(comma(out, begin), `"additionalProperties":false`...)
	}
	return append(out, '}')
}

// comma appends a comma if anything was written since begin.
func comma(out []byte, begin int) []byte {
	if len(out) > begin {
		return append(out, ',')
	}
	return out
}

// keyword writes a member of a schema, or nothing.
func (c *converter) keyword(out []byte, o *outline, key, value gjson.Result, depth int) []byte {
	kind := c.kindOf(key.Str, value)
	switch {
	case kind == Dropped, kind == Described:
		return out
	case kind == Constant && value.Type != gjson.String && value.Type != gjson.Number:
		c.refuse("this provider takes texts and numbers as constants")
		return out
	case kind == Constant:
		return append(append(append(out, `"enum":[`...), value.Raw...), ']')
	case kind == Plain:
		c.checkPlain(value)
	case kind == Reference:
		c.refer(value.Str)
		if o.wrapped {
			return append(append(append(out, `"anyOf":[{"$ref":`...), value.Raw...), "}]"...)
		}
	case kind == Single && value.Get("1").Exists():
		c.refuse("this provider joins no schemas")
	case kind == Single: // With one schema there is nothing to join.
		kind = Union
	}
	if kind == Union {
		key.Raw = `"anyOf"`
	}
	out = append(append(out, key.Raw...), ':')
	switch {
	case kind == Schema, kind == Boolean && !value.IsBool():
		return c.schema(out, value, depth+1)
	case kind == Object:
		return c.object(out, key.Str, value, depth)
	case kind == List, kind == Union:
		return c.list(out, value, depth)
	case key.Str == "description" && o.notes != nil:
		return append(out, o.description(value.Str)...)
	}
	return append(out, value.Raw...)
}

// object writes an object of schemas.
func (c *converter) object(out []byte, key string, value gjson.Result, depth int) []byte {
	return c.members(out, value, func(out []byte, name, value gjson.Result) []byte {
		if depth == 0 && isDefinitions(key) {
			c.definition = name.Str
			defer func() { c.definition = "" }()
		}
		return c.under(name.Str, func() []byte { return c.schema(append(append(out, name.Raw...), ':'), value, depth+1) })
	})
}

// members writes an object and calls each to write each member. A member for which each writes nothing is left out.
func (c *converter) members(out []byte, object gjson.Result, each func(out []byte, key, value gjson.Result) []byte) []byte {
	if !object.IsObject() {
		c.refuse("must be an object")
		return out
	}
	out = append(out, '{')
	begin := len(out)
	object.ForEach(func(key, value gjson.Result) bool {
		before := len(out)
		out = comma(out, begin)
		within := len(out)
		if out = each(out, key, value); len(out) == within {
			out = out[:before]
		}
		return c.err == nil
	})
	return append(out, '}')
}

func (c *converter) list(out []byte, list gjson.Result, depth int) []byte {
	out = append(out, '[')
	begin := len(out)
	c.path = append(c.path, "[]")
	list.ForEach(func(_, value gjson.Result) bool {
		out = c.schema(comma(out, begin), value, depth+1)
		return c.err == nil
	})
	c.path = c.path[:len(c.path)-1]
	return append(out, ']')
}

// checkPlain refuses an object, and a list that contains objects or lists.
func (c *converter) checkPlain(value gjson.Result) {
	nested := func(v gjson.Result) bool { return v.IsObject() || v.IsArray() }
	if !value.IsArray() {
		if nested(value) {
			c.refuse("this provider takes no objects as constants")
		}
		return
	}
	value.ForEach(func(_, item gjson.Result) bool {
		if nested(item) {
			c.refuse("this provider takes no objects and lists as constants")
		}
		return c.err == nil
	})
}

// complexPart matches what makes a pattern complex: groups with a question mark, back references and word boundaries.
var complexPart = regexp.MustCompile(`\(\?|\\[bBk1-9]`)

func isComplex(pattern string) bool { return complexPart.MatchString(pattern) }
