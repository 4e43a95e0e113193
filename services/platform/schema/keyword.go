package schema

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// kind checks a value by the keywords that hold for every type.
func (e *evaluation) kind(s *jsonschema.Schema, v any, quiet bool) bool {
	p := e.prepared[s]
	if p.types != nil && !e.isType(v, p.types) {
		return e.fail(quiet, "type", "must be %s", p.typeNames)
	}
	if p.constant == nil && p.enum == nil {
		return true
	}
	text := string(e.canonical(nil, v))
	switch {
	case p.constant != nil && *p.constant != text:
		return e.fail(quiet, "const", "must be the value of the schema")
	case p.enum != nil && !p.enum[text]:
		return e.fail(quiet, "enum", "must be one of the %d values of the schema", len(p.enum))
	}
	return true
}

func (e *evaluation) isType(v any, types []string) bool {
	name := "null"
	switch v := v.(type) {
	case map[string]any:
		name = "object"
	case []any:
		name = "array"
	case string:
		name = "string"
	case bool:
		name = "boolean"
	case json.Number:
		name = "number"
		if slices.Contains(types, "integer") {
			if n, ok := e.parse(v); ok && n.integer() {
				return true
			}
		}
	}
	return slices.Contains(types, name)
}

// canonical appends one and the same text for equal values.
func (e *evaluation) canonical(dst []byte, v any) []byte {
	if !e.take(costCanonical) {
		return dst
	}
	switch v := v.(type) {
	case map[string]any:
		dst = append(dst, '{')
		for _, name := range e.names(v) {
			dst = e.canonical(e.canonical(dst, name), v[name])
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for _, element := range v {
			dst = e.canonical(dst, element)
		}
		return append(dst, ']')
	case string:
		e.take(len(v) / bytesRead)
		return append(append(strconv.AppendInt(append(dst, '"'), int64(len(v)), 10), ':'), v...)
	case json.Number:
		n, ok := e.parse(v)
		if !ok {
			return append(append(dst, '?'), v...)
		}
		return append(append(dst, '#'), n.text()...)
	case bool:
		return strconv.AppendBool(dst, v)
	}
	return append(dst, "null"...)
}

// text checks a text.
func (e *evaluation) text(s *jsonschema.Schema, v string, quiet bool) bool {
	ok := true
	if s.MinLength != nil || s.MaxLength != nil {
		if !e.take(len(v) / bytesRead) {
			return false
		}
		ok = e.size(utf8.RuneCountInString(v), s.MinLength, s.MaxLength, "Length", "characters", quiet)
	}
	if s.Pattern != nil && !e.matches(s.Pattern, v) {
		ok = e.fail(quiet, "pattern", "must match %s", s.Pattern)
	}
	return ok
}

// size checks a number of things.
func (e *evaluation) size(n int, low, high *int, keyword, things string, quiet bool) bool {
	switch {
	case low != nil && n < *low:
		return e.fail(quiet, "min"+keyword, "must have %d %s or more", *low, things)
	case high != nil && n > *high:
		return e.fail(quiet, "max"+keyword, "must have %d %s or fewer", *high, things)
	}
	return true
}

// number checks a number; other values have nothing to check.
func (e *evaluation) number(s *jsonschema.Schema, v any, quiet bool) bool {
	text, is := v.(json.Number)
	if !is || s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return true
	}
	n, ok := e.parse(text)
	if !ok || !n.comparable() {
		return e.fail(quiet, "number", "must not have more than %d digits", maxDigits)
	}
	if !e.takeArithmetic(costNumber, n.bits()) {
		return false
	}
	r := n.rat()
	for _, bound := range []struct {
		keyword, rule string
		of            *big.Rat
		holds         func() bool
	}{
		{"minimum", "must be at least", s.Minimum, func() bool { return r.Cmp(s.Minimum) >= 0 }},
		{"maximum", "must be at most", s.Maximum, func() bool { return r.Cmp(s.Maximum) <= 0 }},
		{"exclusiveMinimum", "must be more than", s.ExclusiveMinimum, func() bool { return r.Cmp(s.ExclusiveMinimum) > 0 }},
		{"exclusiveMaximum", "must be less than", s.ExclusiveMaximum, func() bool { return r.Cmp(s.ExclusiveMaximum) < 0 }},
		{"multipleOf", "must be a multiple of", s.MultipleOf, func() bool { return new(big.Rat).Quo(r, s.MultipleOf).IsInt() }},
	} {
		if bound.of == nil {
			continue
		}
		if !e.takeArithmetic(0, bitsOf(r)+bitsOf(bound.of)) {
			return false
		}
		if !bound.holds() {
			ok = e.fail(quiet, bound.keyword, "%s %s", bound.rule, (*written)(bound.of))
		}
	}
	return ok
}

// object checks an object and its properties.
func (e *evaluation) object(s *jsonschema.Schema, v map[string]any, quiet bool, own *evaluated) bool {
	ok := e.size(len(v), s.MinProperties, s.MaxProperties, "Properties", "properties", quiet)
	ok = e.required(s.Required, v, "required", quiet) && ok
	ok = e.dependentRequired(s, v, quiet) && ok
	if s.PropertyNames != nil {
		for name := range e.members(v, quiet) {
			ok = e.child(s.PropertyNames, name, name, quiet) && ok
		}
	}
	if s.Properties == nil && s.PatternProperties == nil && s.AdditionalProperties == nil {
		return ok
	}
	for name, field := range e.members(v, quiet) {
		if !ok && quiet {
			return false
		}
		ok = e.property(s, name, field, quiet, own) && ok
	}
	return ok
}

func (e *evaluation) required(names []string, v map[string]any, keyword string, quiet bool) bool {
	ok := true
	for _, name := range names {
		if e.ended() || !e.takeName(name) {
			return false
		}
		if _, has := v[name]; has {
			continue
		}
		if quiet {
			return false
		}
		ok = e.fail(quiet, keyword, "must have the property %q", cut(name))
	}
	return ok
}

func (e *evaluation) dependentRequired(s *jsonschema.Schema, v map[string]any, quiet bool) bool {
	ok := true
	for _, name := range e.prepared[s].dependentRequired {
		if e.ended() || !e.takeName(name) {
			return false
		}
		if _, has := v[name]; has {
			ok = e.required(s.DependentRequired[name], v, "dependentRequired", quiet) && ok
		}
	}
	return ok
}

// property checks one property.
func (e *evaluation) property(s *jsonschema.Schema, name string, field any, quiet bool, own *evaluated) bool {
	ok, known := true, false
	if sub := s.Properties[name]; sub != nil {
		ok, known = e.child(sub, name, field, quiet), true
	}
	for _, expression := range e.prepared[s].patterns {
		if e.matches(expression, name) {
			ok, known = e.child(s.PatternProperties[expression], name, field, quiet) && ok, true
		}
	}
	if !known {
		switch additional := s.AdditionalProperties.(type) {
		case bool:
			known = true
			if !additional {
				e.path = append(e.path, name)
				ok = e.fail(quiet, "additionalProperties", "must be absent: the schema does not know it")
				e.path = e.path[:len(e.path)-1]
			}
		case *jsonschema.Schema:
			ok, known = e.child(additional, name, field, quiet), true
		}
	}
	if known && own != nil {
		e.take(costMerged + len(name)/bytesHashed)
		own.addProperty(name)
	}
	return ok
}

// array checks an array and its items.
func (e *evaluation) array(s *jsonschema.Schema, v []any, quiet bool, own *evaluated) bool {
	ok := e.size(len(v), s.MinItems, s.MaxItems, "Items", "items", quiet)
	if s.UniqueItems && !e.unique(v) {
		ok = e.fail(quiet, "uniqueItems", "must not have equal items")
	}
	for i, element := range v {
		sub := s.Items2020
		if i < len(s.PrefixItems) {
			sub = s.PrefixItems[i]
		}
		if sub == nil || !ok && quiet || e.ended() {
			break
		}
		ok = e.child(sub, strconv.Itoa(i), element, quiet) && ok
	}
	if own != nil {
		own.items = min(len(s.PrefixItems), len(v))
		if s.Items2020 != nil {
			own.items = len(v)
		}
	}
	if s.Contains != nil {
		ok = e.contains(s, v, quiet, own) && ok
	}
	return ok
}

func (e *evaluation) unique(v []any) bool {
	seen := make(map[string]bool)
	for _, element := range v {
		text := string(e.canonical(nil, element))
		if seen[text] || e.cost < 0 {
			return false
		}
		seen[text] = true
	}
	return true
}

// contains checks how many items follow the schema of contains.
func (e *evaluation) contains(s *jsonschema.Schema, v []any, quiet bool, own *evaluated) bool {
	matched, low := 0, 1
	if s.MinContains != nil {
		low = *s.MinContains
	}
	for i, element := range v {
		if e.ended() {
			return false
		}
		if e.child(s.Contains, strconv.Itoa(i), element, true) {
			matched++
			if own != nil {
				e.take(costMerged)
				own.addItem(i)
			}
		}
	}
	switch {
	case matched < low:
		return e.fail(quiet, "contains", "must have %d or more items of the wanted form, has %d", low, matched)
	case s.MaxContains != nil && matched > *s.MaxContains:
		return e.fail(quiet, "maxContains", "must have %d or fewer items of the wanted form, has %d", *s.MaxContains, matched)
	}
	return true
}
