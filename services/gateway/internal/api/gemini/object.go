package gemini

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// object reads the members of a JSON object at a path of a request by their names in camel case. Google's parsers take
// them in snake case, too.
type object struct {
	*dialect.Object
	path string
	// names are the members that are known; written are the members' names as they are in the body, by the name in camel case.
	names   names
	written map[string]string
}

// names are the known members of an object, by their name without case and underscores.
type names map[string]string

func known(list ...string) names {
	n := make(names, len(list))
	for _, name := range list {
		n[squeeze(name)] = name
	}
	return n
}

var separators = strings.NewReplacer("_", "", "-", "")

func squeeze(name string) string {
	return strings.ToLower(separators.Replace(name))
}

// snake returns a name in snake case.
func snake(name string) string {
	var out strings.Builder
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			out.WriteByte('_')
			c += 'a' - 'A'
		}
		out.WriteRune(c)
	}
	return out.String()
}

// newObject parses an object. A member that a tolerant parser could take for a known one, or that is there in both
// cases, is refused: a provider might use another value than was checked here.
func newObject(path string, raw json.RawMessage, n names) (*object, error) {
	members, err := dialect.Members(raw)
	if err != nil {
		return nil, within(path, err)
	}
	return n.object(path, members)
}

// parse parses the body of a request.
func parse(body []byte, n names) (*object, error) {
	members, err := dialect.Parse(body)
	if err != nil {
		return nil, err
	}
	return n.object("", members)
}

func (n names) object(path string, members *dialect.Object) (*object, error) {
	o := &object{Object: members, path: path, names: n}
	for _, name := range members.Rest() {
		camel, ok := n[squeeze(name)]
		switch {
		case !ok || name == camel && o.written[camel] == "":
			continue
		case name != camel && name != snake(camel):
			return nil, apierr.Invalid(o.at(screen.Path(name, ".")), fmt.Sprintf("unknown field; write %q", camel))
		case members.Has(camel):
			return nil, apierr.Invalid(o.at(camel), "is there twice, in two spellings")
		}
		if o.written == nil {
			o.written = make(map[string]string)
		}
		o.written[camel] = name
	}
	return o, nil
}

// within gives an error of a part of the request its path.
func within(path string, err error) error {
	if path == "" {
		return err
	}
	return apierr.Invalid(path, strings.TrimPrefix(apierr.From(err).Text, "body: "))
}

// at returns the path of a member.
func (o *object) at(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// raw returns a member's JSON; nil if it is absent or null.
func (o *object) raw(name string) json.RawMessage {
	if written, ok := o.written[name]; ok {
		return o.Raw(written)
	}
	return o.Raw(name)
}

// has reports whether a member is present and not null, without reading it.
func (o *object) has(name string) bool {
	if written, ok := o.written[name]; ok {
		return o.Has(written)
	}
	return o.Has(name)
}

// unknown returns the names of the members that fields doesn't list, in neither case.
func (o *object) unknown(fields dialect.Fields) []string {
	return slices.DeleteFunc(o.Unknown(fields), func(name string) bool {
		camel, known := o.names[squeeze(name)]
		return known && o.written[camel] == name
	})
}

// take decodes a member into a value; an absent or null one leaves it unchanged.
func (o *object) take(name string, into any) error {
	raw := o.raw(name)
	if raw == nil {
		return nil
	}
	return dialect.Decode(o.at(name), raw, into)
}

// field is a member and where it goes.
type field struct {
	name string
	into any
}

func (o *object) takeAll(fields ...field) error {
	for _, f := range fields {
		if err := o.take(f.name, f.into); err != nil {
			return err
		}
	}
	return nil
}

// whole stores a number in *into that is written in digits only: parsers differ in how they read 1e2 and 100.0.
func (o *object) whole(name string, least, most int64, into *int64) error {
	raw := o.raw(name)
	if raw == nil {
		return nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < least || n > most {
		return apierr.Invalid(o.at(name), fmt.Sprintf("must be a whole number from %d to %d, written in digits only", least, most))
	}
	*into = n
	return nil
}

// list returns the elements of a member that is an array.
func (o *object) list(name string) ([]json.RawMessage, error) {
	return dialect.Elements(o.at(name), o.raw(name))
}
