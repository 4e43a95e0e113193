package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// jsonSchema converts a schema in Google's form, a part of OpenAPI 3.0 with types in upper case, to a JSON schema. It
// is read once, whatever its depth. Source: google.golang.org/genai, type Schema.
func jsonSchema(path string, raw json.RawMessage) (json.RawMessage, error) {
	c := converter{in: jsontext.NewDecoder(bytes.NewReader(raw)), out: make([]byte, 0, len(raw)+16)}
	if err := c.schema(); err != nil {
		if _, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			return nil, apierr.Invalid(path, "is not a schema: a name appears twice")
		}
		return nil, apierr.Invalid(path, err.Error())
	}
	return c.out, nil
}

// converter writes the schema that in holds to out.
type converter struct {
	in  *jsontext.Decoder
	out []byte
}

var (
	errNotObject = errors.New("holds a schema that is not an object")
	errNotList   = errors.New("holds a list of schemas that is not an array")
	errType      = errors.New("holds a type that is not a string")
	errNullable  = errors.New("holds a nullable that is not a boolean")
)

// schema converts one schema. The type and whether it may be null become one keyword, which is written last.
func (c *converter) schema() error {
	if c.in.PeekKind() != '{' {
		return errNotObject
	}
	var kind string
	nullable := false
	begin := len(c.out)
	err := c.members(func(name string) error {
		switch name {
		case "type":
			token, err := c.in.ReadToken()
			if err != nil || token.Kind() != '"' {
				return errors.Join(err, errType)
			}
			kind = strings.ToLower(token.String())
			return nil
		case "nullable":
			token, err := c.in.ReadToken()
			if err != nil || token.Kind() != 't' && token.Kind() != 'f' {
				return errors.Join(err, errNullable)
			}
			nullable = token.Bool()
			return nil
		}
		return c.keyword(begin, name)
	})
	if err != nil {
		return err
	}
	if kind == "" || kind == "type_unspecified" {
		return nil
	}
	c.out = c.out[:len(c.out)-1] // The brace.
	c.name(begin, "type")
	quoted := quote(kind)
	if nullable {
		quoted = append(append([]byte{'['}, quoted...), `,"null"]`...)
	}
	c.out = append(append(c.out, quoted...), '}')
	return nil
}

// keyword converts any other keyword.
func (c *converter) keyword(begin int, name string) error {
	switch name {
	case "propertyOrdering", "property_ordering", "example": // No keywords of JSON schema.
		return c.in.SkipValue()
	case "items", "additionalProperties", "additional_properties":
		c.name(begin, camel(name))
		if kind := c.in.PeekKind(); kind == 't' || kind == 'f' {
			return c.copy()
		}
		return c.schema()
	case "properties", "defs":
		c.name(begin, map[string]string{"properties": "properties", "defs": "$defs"}[name])
		return c.schemas()
	case "anyOf", "any_of":
		c.name(begin, "anyOf")
		return c.list()
	case "ref":
		c.name(begin, "$ref")
		return c.copy()
	case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties",
		"min_items", "max_items", "min_length", "max_length", "min_properties", "max_properties":
		c.name(begin, camel(name))
		return c.number()
	}
	c.name(begin, name)
	return c.copy()
}

// schemas converts an object of schemas.
func (c *converter) schemas() error {
	if c.in.PeekKind() != '{' {
		return errNotObject
	}
	begin := len(c.out)
	return c.members(func(name string) error {
		c.name(begin, name)
		return c.schema()
	})
}

// members reads an object, whose values each reads and writes.
func (c *converter) members(each func(name string) error) error {
	if _, err := c.in.ReadToken(); err != nil {
		return err
	}
	c.out = append(c.out, '{')
	for c.in.PeekKind() == '"' {
		token, err := c.in.ReadToken()
		if err != nil {
			return err
		}
		if err := each(token.String()); err != nil {
			return err
		}
	}
	_, err := c.in.ReadToken()
	c.out = append(c.out, '}')
	return err
}

// list converts an array of schemas.
func (c *converter) list() error {
	if c.in.PeekKind() != '[' {
		return errNotList
	}
	_, _ = c.in.ReadToken() // It was peeked at.
	c.out = append(c.out, '[')
	begin := len(c.out)
	for kind := c.in.PeekKind(); kind != ']' && kind != 0; kind = c.in.PeekKind() {
		if len(c.out) > begin {
			c.out = append(c.out, ',')
		}
		if err := c.schema(); err != nil {
			return err
		}
	}
	_, err := c.in.ReadToken()
	c.out = append(c.out, ']')
	return err
}

// name writes the name of a member of the object that begins at begin.
func (c *converter) name(begin int, name string) {
	if len(c.out) > begin+1 {
		c.out = append(c.out, ',')
	}
	c.out = append(append(c.out, quote(name)...), ':')
}

func (c *converter) copy() error {
	value, err := c.in.ReadValue()
	c.out = append(c.out, value...)
	return err
}

// number copies a number, which this API writes as text, too.
func (c *converter) number() error {
	value, err := c.in.ReadValue()
	if text := bytes.Trim(value, `"`); err == nil && jsoncheck.Valid(text) {
		value = text
	}
	c.out = append(c.out, value...)
	return err
}

func quote(text string) []byte {
	quoted, _ := jsontext.AppendQuote(nil, text) // Invalid UTF-8 alone is an error; it is replaced.
	return quoted
}

// camel returns a name in camel case.
func camel(name string) string {
	var out strings.Builder
	upper := false
	for _, c := range name {
		if upper = upper || c == '_'; c == '_' {
			continue
		}
		if upper {
			c, upper = c-'a'+'A', false
		}
		out.WriteRune(c)
	}
	return out.String()
}
