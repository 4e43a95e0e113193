package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The keywords whose values are subschemas: one, a list, or a map by names.
var (
	single = []string{
		"not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
		"unevaluatedProperties", "contentSchema",
	}
	lists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	named = []string{"$defs", "definitions", "properties", "patternProperties", "dependentSchemas"}
)

// refused are keywords that make sense only for schemas of several documents, or of other drafts.
var refused = []string{"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary", "dependencies"}

// sizes are the keywords that count, which the library reads as machine words.
var sizes = []string{
	"minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties",
}

// draft is the value of $schema, and draft07 the one of the older dialect.
const (
	draft   = "https://json-schema.org/draft/2020-12/schema"
	draft07 = "http://json-schema.org/draft-07/schema"
)

// scanner visits the subschemas of a document before the library does, for what the library has no bound or does not
// refuse.
type scanner struct {
	// places are the pointers of all subschemas, and of anchors with a # before their names.
	places map[string]bool
	refs   []reference
	// older reports whether draft-07 is read, too; declared whether the document is of it.
	older, declared bool
}

// reference is a $ref at a place.
type reference struct{ at, to string }

// scan refuses a document that refers to others, that is nested too deep, or that has numbers of too many digits. It
// removes the keywords that name the document and its draft, and brings one of draft-07 into the form of draft 2020-12.
func scan(document any, older bool) error {
	if err := scanNumbers(document, ""); err != nil {
		return err
	}
	s := scanner{places: make(map[string]bool), older: older}
	if root, ok := document.(map[string]any); ok && older {
		text, _ := root["$schema"].(string)
		s.declared = strings.TrimSuffix(text, "#") == draft07
	}
	if err := s.visit(document, "", 0); err != nil {
		return err
	}
	for _, ref := range s.refs {
		pointer, err := url.PathUnescape(ref.to)
		if err == nil && pointer != "" && pointer[0] != '/' {
			pointer = "#" + pointer
		}
		if err != nil || !s.places[pointer] {
			return refuse(ref.at, "must refer to a schema within this document, such as #/$defs/name")
		}
	}
	return nil
}

func (s *scanner) visit(value any, at string, depth int) error {
	s.places[at] = true
	object, ok := value.(map[string]any)
	if !ok {
		if _, ok := value.(bool); !ok {
			return refuse(at, "must be an object or a boolean")
		}
		return nil
	}
	if depth > maxDepth {
		return refuse(at, fmt.Sprintf("must not be nested deeper than %d schemas", maxDepth))
	}
	if s.declared {
		modernize(object)
	}
	if err := s.names(object, at); err != nil {
		return err
	}
	return s.below(object, at, depth)
}

// names checks the keywords that name a schema or refer to one.
func (s *scanner) names(object map[string]any, at string) error {
	for _, keyword := range refused {
		if _, ok := object[keyword]; ok {
			return refuse(at+"/"+keyword, "is not supported")
		}
	}
	for _, keyword := range sizes {
		value, _ := object[keyword].(json.Number)
		if size, err := strconv.ParseFloat(cmp.Or(value.String(), "0"), 64); err != nil || size > math.MaxInt32 {
			return refuse(at+"/"+keyword, fmt.Sprintf("must be at most %d", math.MaxInt32))
		}
	}
	if value, ok := object["$schema"]; ok {
		if err := s.dialect(value, at); err != nil {
			return err
		}
		delete(object, "$schema")
	}
	if value, ok := object["$id"]; ok {
		if _, text := value.(string); !text || at != "" {
			return refuse(at+"/$id", "must be a text, at the beginning of the document")
		}
		delete(object, "$id") // References begin with #, whatever the document's name.
	}
	if anchor, ok := object["$anchor"].(string); ok {
		s.places["#"+anchor] = true
	}
	if value, ok := object["$ref"]; ok {
		text, _ := value.(string)
		to, within := strings.CutPrefix(text, "#")
		if !within {
			return refuse(at+"/$ref", "must begin with #: a schema refers only to itself")
		}
		s.refs = append(s.refs, reference{at + "/$ref", to})
	}
	return nil
}

// dialect checks the value of $schema.
func (s *scanner) dialect(value any, at string) error {
	text, _ := value.(string)
	text = strings.TrimSuffix(text, "#")
	switch {
	case at == "" && (text == draft || text == draft07 && s.older):
		return nil
	case s.older:
		return refuse(at+"/$schema", "must be "+draft+" or "+draft07+"#, at the beginning of the document")
	}
	return refuse(at+"/$schema", "must be "+draft+", at the beginning of the document")
}

// below visits the subschemas of an object. A value of another form than its keyword has is left to the library.
func (s *scanner) below(object map[string]any, at string, depth int) error {
	for _, keyword := range single {
		if value, ok := object[keyword]; ok {
			if err := s.visit(value, at+"/"+keyword, depth+1); err != nil {
				return err
			}
		}
	}
	for _, keyword := range lists {
		list, _ := object[keyword].([]any)
		for i, value := range list {
			if err := s.visit(value, at+"/"+keyword+"/"+strconv.Itoa(i), depth+1); err != nil {
				return err
			}
		}
	}
	for _, keyword := range named {
		values, _ := object[keyword].(map[string]any)
		for name, value := range values {
			if err := s.visit(value, at+"/"+keyword+"/"+escaper.Replace(name), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// scanNumbers refuses numbers that take long to compare.
func scanNumbers(value any, at string) error {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			if err := scanNumbers(field, at+"/"+escaper.Replace(name)); err != nil {
				return err
			}
		}
	case []any:
		for i, element := range slices.All(v) {
			if err := scanNumbers(element, at+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	case json.Number:
		if n, ok := parseNumber(v.String()); !ok || !n.comparable() {
			return refuse(at, fmt.Sprintf("must not have more than %d digits", maxDigits))
		}
	}
	return nil
}
