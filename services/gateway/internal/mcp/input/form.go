package input

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv2text "github.com/go-json-experiment/json/jsontext"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Bounds of a form.
const (
	maxFields  = 64
	maxChoices = 256
	// maxTitle bounds names, titles and choices, and maxDescription descriptions, in bytes.
	maxTitle       = 512
	maxDescription = 4 << 10
)

// form is what a server wants to know: fields without any nesting.
type form struct {
	fields   []field
	required []string
}

// field is a field of a form.
type field struct {
	name string
	kind fieldKind
}

// fieldKind is the schema of a field. It has the keywords that the protocol gives forms, and no others: what else a server
// writes is left out.
type fieldKind struct {
	Type        string           `json:"type"`
	Title       string           `json:"title,omitzero"`
	Description string           `json:"description,omitzero"`
	MinLength   *int             `json:"minLength,omitzero"`
	MaxLength   *int             `json:"maxLength,omitzero"`
	Format      string           `json:"format,omitzero"`
	Minimum     jsonv2text.Value `json:"minimum,omitzero"`
	Maximum     jsonv2text.Value `json:"maximum,omitzero"`
	Enum        []string         `json:"enum,omitzero"`
	EnumNames   []string         `json:"enumNames,omitzero"`
	OneOf       []choice         `json:"oneOf,omitzero"`
	Items       *items           `json:"items,omitzero"`
	MinItems    *int             `json:"minItems,omitzero"`
	MaxItems    *int             `json:"maxItems,omitzero"`
	Default     jsonv2text.Value `json:"default,omitzero"`
}

// choice is a choice with a title.
type choice struct {
	Const string `json:"const"`
	Title string `json:"title,omitzero"`
}

// items are the choices of a field that takes several.
type items struct {
	Type  string   `json:"type,omitzero"`
	Enum  []string `json:"enum,omitzero"`
	AnyOf []choice `json:"anyOf,omitzero"`
}

// Types of fields.
const (
	typeText    = "string"
	typeNumber  = "number"
	typeInteger = "integer"
	typeBoolean = "boolean"
	typeList    = "array"
)

// formats are the formats that a text may have.
var formats = []string{"email", "uri", "date", "date-time"}

// readForm reads the schema of a form. It has passed wire.Check; nil for none.
func readForm(schema json.RawMessage) (*form, error) {
	var f form
	kind, required := "", json.RawMessage(nil)
	var wrong error
	wire.Members(orEmpty(schema), func(name string, value []byte) bool {
		switch name {
		case "type":
			kind, _ = wire.Text(value)
		case "properties":
			wrong = f.readFields(value)
		case "required":
			required = value
		}
		return wrong == nil
	})
	switch {
	case wrong != nil:
		return nil, wrong
	case kind != "object":
		return nil, refuse("requestedSchema.type", "must be object")
	}
	return &f, f.require(required)
}

func (f *form) readFields(properties []byte) error {
	var wrong error
	if !wire.Members(properties, func(name string, value []byte) bool {
		one := field{name: name}
		switch wrong = one.read(value); {
		case wrong != nil:
		case len(f.fields) == maxFields:
			wrong = refuse("requestedSchema.properties", fmt.Sprintf("must have at most %d fields", maxFields))
		default:
			f.fields = append(f.fields, one)
		}
		return wrong == nil
	}) {
		return refuse("requestedSchema.properties", "must be an object")
	}
	return wrong
}

// require reads which fields must be filled in.
func (f *form) require(required json.RawMessage) error {
	if required == nil {
		return nil
	}
	named := make(map[string]bool, len(f.fields))
	for i := range f.fields {
		named[f.fields[i].name] = true
	}
	known := true
	isList := wire.Elements(required, func(value []byte) bool {
		name, _ := wire.Text(value)
		known = named[name] && len(f.required) < maxFields
		f.required = append(f.required, name)
		return known
	})
	if !isList || !known {
		return refuse("requestedSchema.required", "must be a list of fields of the form")
	}
	return nil
}

// read reads the schema of a field.
func (f *field) read(schema []byte) error {
	const at = "requestedSchema.properties"
	if f.name == "" || len(f.name) > maxTitle {
		return refuse(at, fmt.Sprintf("must have names of 1 to %d bytes", maxTitle))
	}
	k := &f.kind
	if err := jsonv2.Unmarshal(schema, k); err != nil {
		return refuse(at, "must be texts, numbers, booleans or lists of choices, without nesting")
	}
	switch k.Type {
	case typeText:
		k.Items, k.MinItems, k.MaxItems, k.Minimum, k.Maximum = nil, nil, nil, nil, nil
	case typeNumber, typeInteger, typeBoolean:
		*k = fieldKind{Type: k.Type, Title: k.Title, Description: k.Description, Minimum: k.Minimum, Maximum: k.Maximum, Default: k.Default}
	case typeList:
		*k = fieldKind{Type: k.Type, Title: k.Title, Description: k.Description, Items: k.Items, MinItems: k.MinItems, MaxItems: k.MaxItems, Default: k.Default}
		if k.Items == nil || len(k.choices()) == 0 {
			return refuse(at, "must have the choices of a list in items")
		}
		k.Items.Type = typeText
	default:
		return refuse(at, "must be of the types string, number, integer, boolean or array")
	}
	return k.settle()
}

// settle bounds the texts of a field, and leaves out what has no meaning.
func (k *fieldKind) settle() error {
	if len(k.Title) > maxTitle || len(k.Description) > maxDescription || len(k.choices()) > maxChoices || len(k.EnumNames) > maxChoices {
		return refuse("requestedSchema.properties", fmt.Sprintf("must have titles of %d bytes, descriptions of %d, and %d choices, at most", maxTitle, maxDescription, maxChoices))
	}
	k.Title, k.Description = legible(k.Title), legible(k.Description)
	for i := range k.EnumNames {
		k.EnumNames[i] = legible(k.EnumNames[i])
	}
	for _, titled := range [][]choice{k.OneOf, k.titledItems()} {
		for i := range titled {
			titled[i].Title = legible(titled[i].Title)
		}
	}
	if !slices.Contains(formats, k.Format) {
		k.Format = ""
	}
	if !isNumber(k.Minimum) {
		k.Minimum = nil
	}
	if !isNumber(k.Maximum) {
		k.Maximum = nil
	}
	if k.Default != nil && k.check(k.Default) != "" {
		k.Default = nil
	}
	return nil
}

func (k *fieldKind) titledItems() []choice {
	if k.Items == nil {
		return nil
	}
	return k.Items.AnyOf
}

// choices returns what a field takes; nil where it isn't a choice.
func (k *fieldKind) choices() []string {
	plain, titled := k.Enum, k.OneOf
	if k.Items != nil {
		plain, titled = k.Items.Enum, k.Items.AnyOf
	}
	all := slices.Clone(plain)
	for i := range titled {
		all = append(all, titled[i].Const)
	}
	return all
}

// maxNumber bounds a number, in bytes.
const maxNumber = 64

func isNumber(value []byte) bool {
	return len(value) > 0 && len(value) <= maxNumber && kindOf(value) == '0'
}

// number returns the value of a number; false where a double doesn't hold it.
func number(value []byte) (float64, bool) {
	n, err := strconv.ParseFloat(string(value), 64)
	return n, err == nil
}

// encode returns the schema of the form.
func (f *form) encode() json.RawMessage {
	out := []byte(`{"type":"object","properties":{`)
	for i := range f.fields {
		if i > 0 {
			out = append(out, ',')
		}
		text, err := jsonv2.Marshal(&f.fields[i].kind)
		if err != nil {
			text = []byte("{}") // Texts and numbers that were read can be written.
		}
		out = append(append(jsontext.AppendText(out, f.fields[i].name), ':'), text...)
	}
	out = append(out, '}')
	for i, name := range f.required {
		if i == 0 {
			out = append(out, `,"required":[`...)
		} else {
			out = append(out, ',')
		}
		out = jsontext.AppendText(out, name)
	}
	if len(f.required) > 0 {
		out = append(out, ']')
	}
	return append(out, '}')
}
