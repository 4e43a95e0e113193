package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/platform/apierr"
)

// Object reads a JSON object's members by their exact names, and knows which
// ones nobody asked for.
type Object struct {
	names   []string
	members map[string]json.RawMessage
	taken   map[string]bool
}

// Parse reads a request body. A name that is there twice is refused: readers
// differ in which one counts, so that what was checked here need not be what a
// provider goes by.
func Parse(body []byte) (*Object, error) {
	if !json.Valid(body) {
		return nil, invalid("body", json.Unmarshal(body, new(any)))
	}
	parsed := gjson.ParseBytes(body)
	if !parsed.IsObject() {
		return nil, apierr.Invalid("body", "must be a JSON object")
	}
	o := &Object{members: make(map[string]json.RawMessage), taken: make(map[string]bool)}
	var err error
	parsed.ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		_, twice := o.members[name]
		switch {
		case twice:
			err = apierr.Invalid("body", fmt.Sprintf("holds %.64q twice", name))
			return false
		case strings.Contains(key.Raw, `\`): // The same name to some readers, another one to others.
			err = apierr.Invalid("body", fmt.Sprintf("writes the name %.64q with an escape", name))
			return false
		}
		o.names = append(o.names, name)
		o.members[name] = json.RawMessage(value.Raw)
		return true
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Take reads a member into a value; one that is absent or null leaves it as it is.
func (o *Object) Take(name string, into any) error {
	o.taken[name] = true
	if !o.Has(name) {
		return nil
	}
	return Decode(name, o.members[name], into)
}

// Raw is a member's JSON; nil when it is absent or null.
func (o *Object) Raw(name string) json.RawMessage {
	o.taken[name] = true
	if !o.Has(name) {
		return nil
	}
	return o.members[name]
}

// Has tells whether a member is there and not null.
func (o *Object) Has(name string) bool {
	raw, there := o.members[name]
	return there && string(raw) != "null"
}

// Ignore marks members as known: they say nothing that an answer depends on.
func (o *Object) Ignore(names ...string) {
	for _, name := range names {
		o.taken[name] = true
	}
}

// Rest names the members that nobody took and that say something.
func (o *Object) Rest() []string {
	var rest []string
	for _, name := range o.names {
		if !o.taken[name] && o.Has(name) {
			rest = append(rest, name)
		}
	}
	return rest
}

// Decode reads JSON that is at a path of a request. Errors name it, and repeat
// no value.
func Decode(path string, raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return invalid(path, err)
	}
	return nil
}

func invalid(path string, err error) error {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if kind.Field != "" {
			path += "." + kind.Field
		}
		what, _, _ := strings.Cut(kind.Value, " ")
		return apierr.Invalid(path, "must not be this "+cmp.Or(what, "value"))
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return apierr.Invalid(path, fmt.Sprintf("invalid JSON at byte %d: %s", syntax.Offset, syntax.Error()))
	}
	return apierr.Invalid(path, "is not the JSON expected")
}

// Elements splits a JSON array.
func Elements(path string, raw json.RawMessage) ([]json.RawMessage, error) {
	var elements []json.RawMessage
	if raw == nil {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, apierr.Invalid(path, "must be an array")
	}
	return elements, nil
}

// At is the path of an array's element.
func At(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
