package dialect

import (
	"encoding/json"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Class is what a field of a face is to providers of other dialects. Those of the face's own dialect get it as it came.
type Class string

const (
	// Read fields are read by the face: other dialects get them in their own form, and refuse what they have no form for.
	Read Class = "read"
	// Handled fields are acted on by the gateway itself, so that no provider is told.
	Handled Class = "handled"
	// Hint fields don't decide an answer: a provider that doesn't take one serves without, and the answer names the field.
	Hint Class = "hint"
	// Own fields can only be carried by providers of the face's dialect.
	Own Class = "own"
)

// Field is a field of a face.
type Field struct {
	Name  string
	Class Class
	// Hint is the kind under which other dialects have the hint too; 0 for none. A field of class Read has a Hint if
	// some models refuse the setting.
	Hint provider.Hint
	// Defaults are the values, as JSON without spaces, that ask for what every provider does without being told.
	Defaults []string
	// Open reports whether the vendor may read more than the body holds because of the field. Surcharge reports whether it
	// bills more than tokens at their list price, except for the value Discount, for which it bills less.
	Open, Surcharge bool
	Discount        string
}

// Fields are all fields of an object of a face. The face reads by them what it doesn't read itself, and the documents list
// them.
type Fields []Field

// Has reports whether the list has a field of a name.
func (f Fields) Has(name string) bool { return f.Find(name) != nil }

// Find returns the field of a name; nil for none.
func (f Fields) Find(name string) *Field {
	i := slices.IndexFunc(f, func(field Field) bool { return field.Name == name })
	if i < 0 {
		return nil
	}
	return &f[i]
}

// Names returns the names of the fields.
func (f Fields) Names() []string {
	names := make([]string, len(f))
	for i := range f {
		names[i] = f[i].Name
	}
	return names
}

// Within returns the fields as those of an object of a name.
func (f Fields) Within(object string) Fields {
	within := slices.Clone(f)
	for i := range within {
		within[i].Name = object + "." + within[i].Name
	}
	return within
}

// IsDefault reports whether a value asks for what every provider does without being told.
func (f *Field) IsDefault(raw json.RawMessage) bool {
	value := compact(raw)
	return slices.ContainsFunc(f.Defaults, func(d string) bool { return strings.EqualFold(d, value) })
}

// compact returns a short JSON value without its spaces.
func compact(raw json.RawMessage) string {
	return strings.Map(func(c rune) rune {
		if c == ' ' || c == '\n' || c == '\t' || c == '\r' {
			return -1
		}
		return c
	}, string(raw))
}

// Classify records what the fields of an object are to providers of other dialects. raw returns a field's JSON, nil for an
// absent one. path precedes the names of the fields; it is empty or ends with a dot.
func (c *Chat) Classify(fields Fields, path string, raw func(name string) json.RawMessage) {
	for i := range fields {
		f := &fields[i]
		isHint := f.Class == Hint || f.Class == Read && f.Hint != 0
		if !isHint && f.Class != Own {
			continue
		}
		value := raw(f.Name)
		if value == nil || f.IsDefault(value) {
			continue
		}
		if isHint {
			c.Hint(f.Hint, path+f.Name)
			continue
		}
		c.own(f, path+f.Name, value)
	}
}

// own records a field that only the face's dialect has, and its effect on the bill.
func (c *Chat) own(f *Field, path string, value json.RawMessage) {
	c.Restrict(path)
	c.Bounds.OpenInput = c.Bounds.OpenInput || f.Open
	switch {
	case f.Surcharge && f.Discount != "" && compact(value) == f.Discount: // Less than the list price.
		c.Bounds.Surcharged = true
	case f.Surcharge:
		c.Surcharge(path)
	}
}

// Hint records a field that no answer depends on, of a kind that other dialects may have too; 0 for none.
func (c *Chat) Hint(kind provider.Hint, name string) {
	c.hint(provider.HintField{Kind: kind, Name: name})
}

func (c *Chat) hint(field provider.HintField) {
	if len(c.Hints) < maxHints && !slices.Contains(c.Hints, field) {
		c.Hints = append(c.Hints, field)
	}
}

// maxHints bounds the hints, whose names callers can make up: an answer names fewer.
const maxHints = 64

// Ignores records a hint that no other dialect has.
func (c *Chat) Ignores(name string) { c.Hint(0, name) }

// HintText returns the text of a hint; empty for another value, which is for the face's own vendors to refuse.
func (o *Object) HintText(name string) string {
	var text string
	_ = json.Unmarshal(o.Raw(name), &text)
	return text
}
