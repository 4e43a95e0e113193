package gemini

import (
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/screen"
)

// encodeFormat requests JSON, with a schema if there is one.
func (r *request) encodeFormat(g *generationConfig, format json.RawMessage) error {
	if len(format) == 0 {
		return nil
	}
	var f struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Description string          `json:"description"`
			Strict      bool            `json:"strict"`
			Schema      json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if err := json.Unmarshal(format, &f); err != nil {
		return invalid("response_format: is not valid", err)
	}
	switch f.Type {
	case "", "text":
		return nil
	case "json_object":
		g.ResponseType = "application/json"
		return nil
	case "json_schema":
	default:
		return provider.Unsupported("response_format.type", "this provider supports json_object and json_schema")
	}
	schema := f.JSONSchema
	if len(schema.Schema) == 0 {
		return invalid("response_format.json_schema.schema: is required", nil)
	}
	if schema.Strict {
		var err error
		if schema.Schema, err = convertSchema("response_format.json_schema.schema", schema.Schema); err != nil {
			return err
		}
	}
	g.ResponseType, g.ResponseSchema = "application/json", schema.Schema
	if schema.Description != "" {
		r.join("", []part{{Text: "The answer is: " + schema.Description}})
	}
	return nil
}

// maxSchemaDepth bounds the depth of a schema that is converted.
const maxSchemaDepth = 32

// Keywords of JSON schema by the vendor's support for them. Source: Gemini API reference,
// GenerationConfig.responseJsonSchema.
const (
	keywordTaken   = iota + 1 // the vendor enforces it
	keywordNote               // it doesn't affect validity
	keywordSchema             // its value is a schema
	keywordList               // its value is a list of schemas
	keywordObject             // its value is an object of schemas
	keywordConst              // it is converted to an enum of one value
	keywordBoolean            // its value is true, false or a schema
)

var keywords = map[string]int{
	"$id": keywordTaken, "$ref": keywordTaken, "$anchor": keywordTaken, "type": keywordTaken, "format": keywordTaken,
	"title": keywordTaken, "description": keywordTaken, "enum": keywordTaken, "minItems": keywordTaken, "maxItems": keywordTaken,
	"minimum": keywordTaken, "maximum": keywordTaken, "required": keywordTaken, "propertyOrdering": keywordTaken,

	"$schema": keywordNote, "$comment": keywordNote, "default": keywordNote, "examples": keywordNote,
	"deprecated": keywordNote, "readOnly": keywordNote, "writeOnly": keywordNote,

	"items": keywordSchema, "prefixItems": keywordList, "anyOf": keywordList, "oneOf": keywordList,
	"$defs": keywordObject, "properties": keywordObject, "additionalProperties": keywordBoolean, "const": keywordConst,
}

// convertSchema converts a strict schema to one that the vendor enforces, or returns an error that names the keyword
// that the vendor would ignore. A missing schema stays missing.
func convertSchema(field string, schema json.RawMessage) (json.RawMessage, error) {
	if len(schema) == 0 {
		return schema, nil
	}
	if !jsoncheck.Valid(schema) {
		return nil, invalid(field+": is not valid JSON", nil)
	}
	c := converter{field: field}
	out := c.schema(make([]byte, 0, len(schema)+16), wire.ParseView(schema), 0)
	return out, c.err
}

// converter walks a schema and keeps its first error. path is the current position: its names are joined only for an
// error, because they may be long.
type converter struct {
	field string
	path  []string
	err   error
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
	case depth > maxSchemaDepth:
		if c.err == nil {
			c.err = provider.Unsupported(c.field, fmt.Sprintf("is nested deeper than %d levels", maxSchemaDepth))
		}
		return out
	case !schema.IsObject():
		c.refuse("this provider wants an object as schema")
		return out
	}
	return c.members(out, schema, func(out []byte, key, value gjson.Result) []byte {
		if keywords[key.Str] == 0 {
			c.refuse("this provider has no keyword %s", screen.Quote(key.Str))
			return out
		}
		return c.under(key.Str, func() []byte { return c.keyword(out, key, value, depth) })
	})
}

func (c *converter) keyword(out []byte, key, value gjson.Result, depth int) []byte {
	if keywords[key.Str] == keywordConst {
		if value.Type != gjson.String && value.Type != gjson.Number {
			c.refuse("this provider takes texts and numbers as constants")
		}
		return append(append(append(out, `"enum":[`...), value.Raw...), ']')
	}
	out = append(append(out, key.Raw...), ':')
	switch keywords[key.Str] {
	case keywordTaken, keywordNote:
		return append(out, value.Raw...)
	case keywordBoolean:
		if value.IsBool() {
			return append(out, value.Raw...)
		}
		return c.schema(out, value, depth+1)
	case keywordSchema:
		return c.schema(out, value, depth+1)
	case keywordObject:
		return c.members(out, value, func(out []byte, name, value gjson.Result) []byte {
			return c.under(name.Str, func() []byte { return c.schema(append(append(out, name.Raw...), ':'), value, depth+1) })
		})
	}
	return c.list(out, value, depth)
}

// members writes an object whose members are written by each.
func (c *converter) members(out []byte, object gjson.Result, each func(out []byte, key, value gjson.Result) []byte) []byte {
	if !object.IsObject() {
		c.refuse("must be an object")
		return out
	}
	out = append(out, '{')
	begin := len(out)
	object.ForEach(func(key, value gjson.Result) bool {
		if len(out) > begin {
			out = append(out, ',')
		}
		out = each(out, key, value)
		return c.err == nil
	})
	return append(out, '}')
}

func (c *converter) list(out []byte, list gjson.Result, depth int) []byte {
	out = append(out, '[')
	begin := len(out)
	c.path = append(c.path, "[]")
	list.ForEach(func(_, value gjson.Result) bool {
		if len(out) > begin {
			out = append(out, ',')
		}
		out = c.schema(out, value, depth+1)
		return c.err == nil
	})
	c.path = c.path[:len(c.path)-1]
	return append(out, ']')
}
