package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/screen"
)

// Object reads a JSON object's members by their exact names and tracks which were never read.
type Object struct {
	members []member
	// places are the members' positions by name, if there are too many to search.
	places map[string]int
}

type member struct {
	name  string
	raw   json.RawMessage
	taken bool
}

// few is up to how many members a search is faster than building a map.
const few = 24

// Parse parses a request body. A duplicate name is refused: parsers differ in which one counts, so a provider might use
// another value than was checked here. A raw key outside the content members is refused too. The members share the
// body's bytes.
func Parse(body []byte) (*Object, error) {
	if jsoncheck.TooDeep(body) {
		return nil, apierr.Invalid("body", jsoncheck.RuleDepth)
	}
	if !jsoncheck.Valid(body) {
		return nil, invalid("body", json.Unmarshal(body, new(any)))
	}
	o, err := Members(body)
	if err != nil {
		return nil, err
	}
	return o, o.screenKeys()
}

// Members parses a part of a request body that is known to be valid JSON. Unlike Parse, it doesn't look for raw keys.
func Members(body []byte) (*Object, error) {
	parsed := gjson.ParseBytes(body)
	if !parsed.IsObject() {
		return nil, apierr.Invalid("body", "must be a JSON object")
	}
	o := &Object{members: make([]member, 0, few)}
	var err error
	parsed.ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		switch {
		case o.find(name) != nil:
			err = apierr.Invalid("body", "holds "+nameOf(name)+" twice")
			return false
		case strings.Contains(key.Raw, `\`): // The same name to some parsers, another one to others.
			err = apierr.Invalid("body", "writes "+nameOf(name)+" with an escape")
			return false
		}
		o.add(name, part(body, value))
		return true
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// nameOf returns a member's name in quotes, if it may be repeated.
func nameOf(name string) string {
	if screen.IsName(name) {
		return fmt.Sprintf("the name %q", name)
	}
	return "a name"
}

// part returns a value's bytes in the text that it was read from.
func part(text []byte, value gjson.Result) json.RawMessage {
	end := value.Index + len(value.Raw)
	return text[value.Index:end:end]
}

func (o *Object) add(name string, raw json.RawMessage) {
	o.members = append(o.members, member{name: name, raw: raw})
	switch {
	case o.places != nil:
		o.places[name] = len(o.members) - 1
	case len(o.members) == few:
		o.places = make(map[string]int)
		for i, m := range o.members {
			o.places[m.name] = i
		}
	}
}

func (o *Object) find(name string) *member {
	if o.places != nil {
		if i, ok := o.places[name]; ok {
			return &o.members[i]
		}
		return nil
	}
	for i := range o.members {
		if o.members[i].name == name {
			return &o.members[i]
		}
	}
	return nil
}

// Take decodes a member into a value; an absent or null one leaves it unchanged.
func (o *Object) Take(name string, into any) error {
	raw := o.Raw(name)
	if raw == nil {
		return nil
	}
	return Decode(name, raw, into)
}

// Raw returns a member's JSON; nil if it is absent or null.
func (o *Object) Raw(name string) json.RawMessage {
	m := o.find(name)
	if m == nil {
		return nil
	}
	m.taken = true
	if isNull(m.raw) {
		return nil
	}
	return m.raw
}

// Has reports whether a member is present and not null.
func (o *Object) Has(name string) bool {
	m := o.find(name)
	return m != nil && !isNull(m.raw)
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// Ignore marks members as known that no answer depends on.
func (o *Object) Ignore(names ...string) {
	for _, name := range names {
		if m := o.find(name); m != nil {
			m.taken = true
		}
	}
}

// Unknown returns the names of the members that fields doesn't list and that are neither null nor the extension.
func (o *Object) Unknown(fields Fields) []string {
	var unknown []string
	for _, m := range o.members {
		if m.name != Extension && !fields.Has(m.name) && !isNull(m.raw) {
			unknown = append(unknown, m.name)
		}
	}
	return unknown
}

// Rest returns the names of the members that were not read and are not null.
func (o *Object) Rest() []string {
	var rest []string
	for _, m := range o.members {
		if !m.taken && !isNull(m.raw) {
			rest = append(rest, m.name)
		}
	}
	return rest
}

// Decode decodes JSON at a path of a request. Errors name the path and repeat no value.
func Decode(path string, raw json.RawMessage, into any) error {
	if decodePlain(raw, into) {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return invalid(path, err)
	}
	return nil
}

// decodePlain decodes what most members are, as encoding/json would; false leaves it to encoding/json.
func decodePlain(raw json.RawMessage, into any) (ok bool) {
	switch into := into.(type) {
	case *string:
		var text string
		if text, ok = Text(raw); ok {
			*into = text
		}
	case *bool:
		if ok = string(raw) == "true" || string(raw) == "false"; ok {
			*into = raw[0] == 't'
		}
	case **int:
		n, err := strconv.Atoi(string(raw))
		if ok = err == nil; ok {
			*into = &n
		}
	case **float64:
		n, err := strconv.ParseFloat(string(raw), 64)
		if ok = err == nil && raw[0] != '"'; ok {
			*into = &n
		}
	}
	return ok
}

// Text returns a JSON string that contains no escape; false for any other.
func Text(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 || !utf8.Valid(raw) {
		return "", false
	}
	return string(raw[1 : len(raw)-1]), true
}

func invalid(path string, err error) error {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if kind.Field != "" {
			path += "." + kind.Field
		}
		what, _, _ := strings.Cut(kind.Value, " ")
		return apierr.Invalid(path, "has the wrong JSON type: "+cmp.Or(what, "value"))
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return apierr.Invalid(path, fmt.Sprintf("invalid JSON at byte %d: %s", syntax.Offset, syntax.Error()))
	}
	return apierr.Invalid(path, "is not the JSON expected")
}

// Elements splits a valid JSON array; null is an empty one.
func Elements(path string, raw json.RawMessage) ([]json.RawMessage, error) {
	return SomeElements(path, raw, math.MaxInt)
}

// SomeElements is Elements for at most the first most elements: of very short ones each takes more memory than it has bytes.
func SomeElements(path string, raw json.RawMessage, most int) ([]json.RawMessage, error) {
	if raw == nil || isNull(raw) {
		return nil, nil
	}
	list := gjson.ParseBytes(raw)
	if !list.IsArray() {
		return nil, apierr.Invalid(path, "must be an array")
	}
	var elements []json.RawMessage
	list.ForEach(func(_, value gjson.Result) bool {
		elements = append(elements, part(raw, value))
		return len(elements) < most
	})
	return elements, nil
}

// At returns the path of an array's element.
func At(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
