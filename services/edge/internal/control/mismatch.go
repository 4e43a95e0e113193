package control

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
	"switchyard.dev/services/platform/spelling"
)

const (
	ruleUnknown = "is not a field of this request"
	ruleType    = "has the wrong type"
)

// ofMaybe is implemented by maybe of any type.
type ofMaybe interface{ of() reflect.Type }

// mismatch returns the first place at which a valid JSON text does not fit a type; nil if it fits. It runs after decoding
// has failed, whose error has no indexes of lists, and of an unknown field nothing but the name. It repeats names that
// can't be keys, and no values. Its depth is that of the type, its time linear in the text. path is where the text is.
func mismatch(text []byte, into reflect.Type, path string) error {
	for into.Kind() == reflect.Pointer {
		into = into.Elem()
	}
	if field, ok := reflect.TypeAssert[ofMaybe](reflect.Zero(into)); ok {
		return mismatch(text, field.of(), path)
	}
	own := reflect.PointerTo(into).Implements(reflect.TypeFor[json.Unmarshaler]())
	switch kind := into.Kind(); {
	case kind == reflect.Struct && text[0] == '{' && !own:
		return eachPart(text, func(name string, value json.RawMessage) error {
			field, ok := fieldNamed(into, name)
			if !ok {
				return unknownName("body", path, name, ruleUnknown+spelling.Hint(name, "fields", fieldNames(into)))
			}
			return mismatch(value, field.Type, joined(path, jsonName(field)))
		})
	case kind == reflect.Map && text[0] == '{' && !own:
		return eachPart(text, func(name string, value json.RawMessage) error {
			return mismatch(value, into.Elem(), joined(path, screen.Path(name, ".")))
		})
	case kind == reflect.Slice && text[0] == '[' && !own:
		i := -1
		return eachPart(text, func(_ string, value json.RawMessage) error {
			i++
			return mismatch(value, into.Elem(), fmt.Sprintf("%s[%d]", path, i))
		})
	}
	if json.Unmarshal(text, reflect.New(into).Interface()) != nil {
		return apierr.Invalid(cmp.Or(path, "body"), ruleType)
	}
	return nil
}

// eachPart calls visit with each member of an object, or with each item of a list and no name, until it returns an error.
func eachPart(text []byte, visit func(name string, value json.RawMessage) error) error {
	tokens := json.NewDecoder(bytes.NewReader(text))
	_, _ = tokens.Token() // The text is valid.
	for tokens.More() {
		name := ""
		if text[0] == '{' {
			token, _ := tokens.Token()
			name, _ = token.(string)
		}
		var value json.RawMessage
		if err := tokens.Decode(&value); err != nil {
			return fmt.Errorf("read a part of a valid text: %w", err)
		}
		if err := visit(name, value); err != nil {
			return err
		}
	}
	return nil
}

// unknownName refuses a name at a path in a place such as the body, and repeats it only if it can't be a key in the wrong
// place.
func unknownName(place, path, name, rule string) error {
	if !screen.IsName(name) {
		return apierr.Invalid(cmp.Or(path, place), "holds a name that "+rule)
	}
	return apierr.Invalid(joined(path, name), rule)
}

func joined(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// fieldNamed returns the field of a struct that has a name in JSON, whose case doesn't matter.
func fieldNamed(of reflect.Type, name string) (found reflect.StructField, ok bool) {
	for _, field := range jsonFields(of) {
		if strings.EqualFold(jsonName(field), name) {
			return field, true
		}
	}
	return found, false
}

// fieldNames returns the names that the fields of a struct have in JSON.
func fieldNames(of reflect.Type) (names []string) {
	for _, field := range jsonFields(of) {
		names = append(names, jsonName(field))
	}
	return names
}

// jsonFields returns the fields of a struct that JSON holds.
func jsonFields(of reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(of), func(field reflect.StructField) bool {
		return !field.IsExported() || field.Anonymous || jsonName(field) == "-"
	})
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return cmp.Or(name, field.Name)
}
