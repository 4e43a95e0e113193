package schema

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/content/jsontext"
)

// outline is what the converter must know about a schema before it writes the members.
type outline struct {
	// notes are the keywords and values that become a part of the description; described reports whether the schema has
	// one.
	notes     []string
	described bool
	// object reports whether the schema describes an object, listed whether it has properties, and closed whether it
	// has additionalProperties.
	object, listed, closed bool
	// open reports whether additionalProperties allows further properties.
	open                 bool
	properties, required gjson.Result
	// union is how many of anyOf, oneOf, allOf and a wrapped reference the schema has. types reports whether it has a
	// list of types.
	union int
	types bool
	// wrapped reports whether the schema's reference is sent as anyOf.
	wrapped bool
}

func (c *converter) outline(schema gjson.Result) (o outline) {
	references, siblings := 0, false
	schema.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type":
			o.types = value.IsArray()
			o.object = o.object || value.Str == "object" || o.types && hasText(value, "object")
		case "properties":
			o.object, o.listed, o.properties = true, true, value
		case "required":
			o.required = value
		case "additionalProperties":
			o.closed, o.open = true, value.Raw != "false"
		case "description":
			o.described = true
		case "anyOf", "oneOf", "allOf":
			o.union++
		}
		switch kind := c.kindOf(key.Str, value); kind {
		case Reference:
			references++
		case Described:
			o.notes = append(o.notes, key.Str+": "+note(value))
			siblings = true
		default:
			siblings = siblings || kind != Dropped && !strings.HasPrefix(key.Str, "$")
		}
		return true
	})
	if o.wrapped = references > 0 && siblings && c.rules.LoneReferences; o.wrapped {
		o.union += references
	}
	return o
}

// note returns a keyword's value as text for a description.
func note(value gjson.Result) string {
	if value.Type == gjson.String {
		return value.Str
	}
	return value.Raw
}

// hasText reports whether a list contains text.
func hasText(list gjson.Result, text string) (found bool) {
	list.ForEach(func(_, item gjson.Result) bool {
		found = item.Str == text
		return !found
	})
	return found
}

// description returns text with the notes appended, as a JSON string.
func (o *outline) description(text string) []byte {
	notes := "{" + strings.Join(o.notes, ", ") + "}"
	if text != "" {
		notes = text + "\n\n" + notes
	}
	return jsontext.AppendText(nil, notes)
}

// kindOf returns how the vendor supports a keyword with this value.
func (c *converter) kindOf(keyword string, value gjson.Result) Keyword {
	kind := c.rules.Keywords[keyword]
	switch {
	case kind == FewItems && (value.Raw == "0" || value.Raw == "1"),
		kind == Format && slices.Contains(c.rules.Formats, value.Str),
		kind == Pattern && !isComplex(value.Str):
		return Taken
	case kind == FewItems, kind == Format, kind == Pattern:
		return Described
	case kind == 0 && strings.HasPrefix(keyword, "x-"):
		return Dropped
	}
	return kind
}

// checkObject refuses object schemas, and combinations of unions, that the vendor can't enforce.
func (c *converter) checkObject(o *outline, depth int) {
	if o.union > 1 && (c.rules.Closed || o.wrapped) {
		c.refuse("this provider takes one of anyOf, oneOf, allOf and $ref")
	}
	if !o.object {
		return
	}
	if c.rules.Closed && (o.open || !o.closed && !o.listed && depth > 0) {
		c.refuse("this provider takes no open objects: set additionalProperties to false")
	}
	if o.listed {
		c.checkRequired(o)
	}
}

// checkRequired counts the optional properties of an object. It refuses the first if the vendor has none.
func (c *converter) checkRequired(o *outline) {
	required := make(map[string]bool)
	o.required.ForEach(func(_, name gjson.Result) bool {
		required[name.Str] = true
		return true
	})
	o.properties.ForEach(func(name, _ gjson.Result) bool {
		if required[name.Str] {
			return true
		}
		c.size.Optional++
		if c.rules.AllRequired {
			c.path = append(c.path, ".properties.", name.Str)
			c.refuse("this provider has no optional properties: list it in required")
		}
		return c.err == nil
	})
}
