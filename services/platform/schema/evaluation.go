package schema

import (
	"fmt"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxNesting bounds how deep subschemas are applied within one another, which takes stack.
const maxNesting = 5000

// evaluation is one check.
type evaluation struct {
	prepared map[*jsonschema.Schema]*prepared
	// cost is what the check may still spend, in nanoseconds. Below zero, the check has ended without a result.
	cost, nesting int
	matcher       matcher
	// path leads to the value that is checked.
	path       []string
	violations []Violation
}

// fail notes a violation, unless quiet, and returns false. It formats the rule only if it notes the violation, because
// a quiet check may fail at every step.
func (e *evaluation) fail(quiet bool, keyword, format string, args ...any) bool {
	if !quiet && !e.ended() {
		rule := keyword + ": " + fmt.Sprintf(format, args...)
		e.violations = append(e.violations, Violation{cut(pointerOf(e.path)), cut(rule)})
	}
	return false
}

// value reports whether a value follows a schema. With quiet it notes no violations, and ends at the first one. outer
// gets what the schema has evaluated, if it is not nil and the value follows the schema.
func (e *evaluation) value(s *jsonschema.Schema, v any, quiet bool, outer *evaluated) bool {
	if e.ended() || !e.take(costValue) {
		return false
	}
	if s.Bool != nil {
		return *s.Bool || e.fail(quiet, "false", "must be absent")
	}
	if e.nesting++; e.nesting > maxNesting {
		e.cost = -1
	}
	defer func() { e.nesting-- }()
	if !e.kind(s, v, quiet) {
		return false // Other keywords would only repeat it.
	}
	var own *evaluated
	if outer != nil || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil {
		own = &evaluated{}
	}
	ok := e.content(s, v, quiet, own)
	if !ok && quiet {
		return false
	}
	ok = e.logic(s, v, quiet, own) && ok
	ok = ok && e.unevaluated(s, v, quiet, own)
	if ok && outer != nil {
		e.merge(outer, own)
	}
	return ok
}

// child checks a value within the present one.
func (e *evaluation) child(s *jsonschema.Schema, token string, v any, quiet bool) bool {
	e.path = append(e.path, token)
	ok := e.value(s, v, quiet, nil)
	e.path = e.path[:len(e.path)-1]
	return ok
}

// content checks a value by the keywords of its type.
func (e *evaluation) content(s *jsonschema.Schema, v any, quiet bool, own *evaluated) bool {
	switch v := v.(type) {
	case map[string]any:
		return e.object(s, v, quiet, own)
	case []any:
		return e.array(s, v, quiet, own)
	case string:
		return e.text(s, v, quiet)
	default:
		return e.number(s, v, quiet)
	}
}

// logic checks a value by the keywords that apply subschemas to the same value.
func (e *evaluation) logic(s *jsonschema.Schema, v any, quiet bool, own *evaluated) bool {
	ok := s.Ref == nil || e.value(s.Ref, v, quiet, own)
	for _, sub := range s.AllOf {
		if !ok && quiet {
			return false
		}
		ok = e.value(sub, v, quiet, own) && ok
	}
	ok = e.anyOf(s, v, quiet, own) && ok
	ok = e.oneOf(s, v, quiet, own) && ok
	if s.Not != nil && e.value(s.Not, v, true, nil) {
		ok = e.fail(quiet, "not", "must not follow this schema")
	}
	ok = e.condition(s, v, quiet, own) && ok
	if len(s.DependentSchemas) > 0 {
		ok = e.dependent(s, v, quiet, own) && ok
	}
	return ok
}

func (e *evaluation) dependent(s *jsonschema.Schema, v any, quiet bool, own *evaluated) bool {
	object, is := v.(map[string]any)
	if !is {
		return true
	}
	ok := true
	for _, name := range e.prepared[s].dependentSchemas {
		if e.ended() || !e.takeName(name) {
			return false
		}
		if _, has := object[name]; has {
			ok = e.value(s.DependentSchemas[name], v, quiet, own) && ok
		}
	}
	return ok
}

func (e *evaluation) anyOf(s *jsonschema.Schema, v any, quiet bool, own *evaluated) bool {
	ok := len(s.AnyOf) == 0
	for _, sub := range s.AnyOf {
		if e.value(sub, v, true, own) {
			ok = true
			if own == nil { // Otherwise each that matches may evaluate more.
				break
			}
		}
	}
	return ok || e.fail(quiet, "anyOf", "must follow one or more of %d schemas, but follows none", len(s.AnyOf))
}

func (e *evaluation) oneOf(s *jsonschema.Schema, v any, quiet bool, own *evaluated) bool {
	matched := 0
	for _, sub := range s.OneOf {
		if e.value(sub, v, true, own) {
			if matched++; matched > 1 {
				return e.fail(quiet, "oneOf", "must follow exactly one of %d schemas, but follows more", len(s.OneOf))
			}
		}
	}
	return len(s.OneOf) == 0 || matched == 1 ||
		e.fail(quiet, "oneOf", "must follow exactly one of %d schemas, but follows none", len(s.OneOf))
}

func (e *evaluation) condition(s *jsonschema.Schema, v any, quiet bool, own *evaluated) bool {
	if s.If == nil {
		return true
	}
	next := s.Else
	if e.value(s.If, v, true, own) {
		next = s.Then
	}
	return next == nil || e.value(next, v, quiet, own)
}

// unevaluated checks what no other keyword of the schema has evaluated.
func (e *evaluation) unevaluated(s *jsonschema.Schema, v any, quiet bool, own *evaluated) bool {
	ok := true
	if object, is := v.(map[string]any); is && s.UnevaluatedProperties != nil {
		for name, field := range e.members(object, quiet) {
			if !own.property(name) {
				ok = e.child(s.UnevaluatedProperties, name, field, quiet) && ok
			}
		}
		own.allProperties = true
	}
	if array, is := v.([]any); is && s.UnevaluatedItems != nil {
		for i, element := range array {
			if e.ended() || !e.take(costProperty) {
				return false
			}
			if !own.item(i) {
				ok = e.child(s.UnevaluatedItems, strconv.Itoa(i), element, quiet) && ok
			}
		}
		own.items = len(array)
	}
	return ok
}

// evaluated is which properties or items of a value were evaluated, for unevaluatedProperties and unevaluatedItems.
type evaluated struct {
	allProperties bool
	properties    map[string]bool
	// items is the number of items from the first on, some are others.
	items int
	some  map[int]bool
}

func (d *evaluated) property(name string) bool { return d.allProperties || d.properties[name] }

func (d *evaluated) item(i int) bool { return i < d.items || d.some[i] }

// addProperty notes a property; d may be nil.
func (d *evaluated) addProperty(name string) {
	if d == nil {
		return
	}
	if d.properties == nil {
		d.properties = make(map[string]bool)
	}
	d.properties[name] = true
}

// addItem notes an item; d may be nil.
func (d *evaluated) addItem(i int) {
	if d == nil {
		return
	}
	if d.some == nil {
		d.some = make(map[int]bool)
	}
	d.some[i] = true
}

// merge adds to one what is in another.
func (e *evaluation) merge(into, from *evaluated) {
	if !e.take(costMerged * (len(from.properties) + len(from.some))) {
		return
	}
	into.allProperties = into.allProperties || from.allProperties
	into.items = max(into.items, from.items)
	for name := range from.properties {
		if !e.take(len(name) / bytesHashed) {
			return
		}
		into.addProperty(name)
	}
	for i := range from.some {
		into.addItem(i)
	}
}
