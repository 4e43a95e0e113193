package growth

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// mostInside is how deep messages in messages are examined.
const mostInside = 4

// Bodies returns hostile JSON bodies of a message. Each is base, a valid body, with one of its fields too long, too
// deep, too many or of another kind, or with members that the message doesn't have. A field added to the contract is
// included at once.
func Bodies(message protoreflect.MessageDescriptor, base string) []Input {
	return append(object(message, base, "", 0), besides(base)...)
}

// besides returns hostile bodies that don't depend on the members of base: any JSON, and base with unknown members.
func besides(base string) []Input {
	inputs := slices.Clone(JSON)
	members := strings.TrimSuffix(strings.TrimSpace(base), "}")
	comma := ","
	if strings.TrimSpace(members) == "{" {
		comma = ""
	}
	return append(inputs,
		Number("unknown members", members+comma, `"x#":1,`, `"z":1}`), Repeat("spaces between", "{", " ", strings.TrimPrefix(base, "{")),
		Repeat("a long name", members+comma+`"`, "x", `":1}`), Repeat("an escaped name", members+comma+`"`, `\u0078`, `":1}`))
}

// object returns hostile objects of a message.
func object(message protoreflect.MessageDescriptor, base, path string, inside int) (inputs []Input) {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(base), &members) != nil {
		members = nil
	}
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		name := field.TextName()
		var begin strings.Builder
		begin.WriteByte('{')
		for _, other := range slices.Sorted(maps.Keys(members)) {
			if other != name && !sameChoice(field, message.Fields().ByTextName(other)) {
				begin.WriteString(`"` + other + `":` + string(members[other]) + ",")
			}
		}
		begin.WriteString(`"` + name + `":`)
		before := begin.String()
		for _, value := range values(field, string(members[name]), path+name, inside) {
			inputs = append(inputs, value.In(before, "}"))
		}
		inputs = append(inputs, Repeat(path+name+" many times", before+"null", `,"`+name+`":null`, "}"))
	}
	return inputs
}

// sameChoice reports whether two fields are of one oneof.
func sameChoice(a, b protoreflect.FieldDescriptor) bool {
	return b != nil && a.ContainingOneof() != nil && a.ContainingOneof() == b.ContainingOneof()
}

// Hostile values: of any field, of strings, and of maps.
var (
	anyValues = []Input{
		Repeat("long", `"`, "a", `"`), Repeat("escaped", `"`, `\u0061`, `"`), Repeat("digits", "1", "0", ""),
		Nest("deep", "[", "", "]"), Nest("deep objects", `{"a":`, "1", "}"),
	}
	stringValues = []Input{Repeat("spaces", `"`, " ", `"`), Repeat("slashes", `"`, "/.", `"`), Repeat("lines", `"`, `\n`, `"`)}
	mapValues    = []Input{
		Number("wide", `{"a":"b"`, `,"k#":"v"`, "}"), Repeat("long names", `{"`, "a", `":"b"}`), Repeat("one name", `{"a":"b"`, `,"a":"b"`, "}"),
	}
)

// many returns hostile lists, one of them of a valid item.
func many(item string) []Input {
	return []Input{Repeat("many", "["+item, ","+item, "]"), Repeat("many empty", "[{}", ",{}", "]")}
}

// values returns hostile values of a field; base is a valid one, or empty.
func values(field protoreflect.FieldDescriptor, base, path string, inside int) (inputs []Input) {
	switch {
	case field.IsMap():
		inputs = append(slices.Clone(anyValues[3:]), mapValues...)
	case field.Kind() == protoreflect.BytesKind:
		inputs = ValidJSON
	case field.Message() != nil && inside < mostInside && field.Message().ParentFile().Package() != "google.protobuf":
		inputs = object(field.Message(), element(base), "", inside+1)
		if field.IsList() {
			inputs = Around("[", inputs, "]")
		}
	case field.Kind() == protoreflect.StringKind && !field.IsList():
		inputs = append(slices.Clone(anyValues), stringValues...)
	default:
		inputs = anyValues
	}
	if field.IsList() {
		item := element(base)
		if item == "" {
			item = zero(field)
		}
		wide := many(item)
		if field.Kind() == protoreflect.StringKind {
			wide = append(wide, Number("many others", `["a"`, `,"a#"`, "]"))
		}
		inputs = append(slices.Clone(inputs), wide...)
	}
	inputs = slices.Clone(inputs)
	for i := range inputs {
		inputs[i].Name = path + " " + inputs[i].Name
	}
	return inputs
}

// element returns the first item of a list, or the value itself if it isn't a list.
func element(value string) string {
	var items []json.RawMessage
	if json.Unmarshal([]byte(value), &items) == nil {
		if len(items) == 0 {
			return ""
		}
		return string(items[0])
	}
	return value
}

// zero returns a value of a field's kind.
func zero(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.StringKind:
		return `"a"`
	case protoreflect.BytesKind, protoreflect.MessageKind:
		return "{}"
	case protoreflect.BoolKind:
		return "true"
	default:
		return "1"
	}
}
