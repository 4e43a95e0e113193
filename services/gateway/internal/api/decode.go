package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
	"switchyard.dev/services/platform/spelling"
)

// decode strictly decodes a field of free JSON (content parts, tool choice, response format). Errors name the field.
func decode(r io.Reader, into any) error {
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return cmp.Or(unknownField(err, reflect.TypeOf(into)), refuse("body", err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return apierr.Invalid("body", "holds more than one JSON value")
	}
	return nil
}

// refuse returns the error of invalid JSON text. It repeats no value.
func refuse(field string, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return apierr.Invalid(field, fmt.Sprintf("invalid JSON at byte %d: %s", syntax.Offset, syntax.Error()))
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what, _, _ := strings.Cut(kind.Value, " ")
		return apierr.Invalid(cmp.Or(screen.Path(publicPath(kind.Field), "."), field), "has the wrong JSON type: "+what)
	}
	switch {
	case errors.Is(err, io.EOF):
		return apierr.Invalid(field, "is required")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return apierr.Invalid(field, "invalid JSON: it ends too early")
	}
	return apierr.Invalid(field, "can't be read as JSON")
}

// unknownField returns the error of JSON text with a field that a type lacks; nil for another error.
func unknownField(err error, into reflect.Type) error {
	name, ok := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !ok {
		return nil
	}
	name, _ = strconv.Unquote(name)
	hint := spelling.Hint(name, "fields", fieldNames(into, ""))
	if !screen.IsName(name) {
		return apierr.Invalid("body", "holds an unknown field"+hint)
	}
	return apierr.Invalid("body", fmt.Sprintf("unknown field %q", name)+hint)
}

// fieldNames returns the names of a type's fields in JSON, with the names within an object after a dot.
func fieldNames(of reflect.Type, path string) (names []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return []string{strings.TrimSuffix(path, ".")}
	}
	for field := range of.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, fieldNames(field.Type, path+name+".")...)
		}
	}
	return names
}

// publicPath removes the Go names of embedded messages from a field's path.
func publicPath(path string) string {
	var names []string
	for name := range strings.SplitSeq(path, ".") {
		if name != "" && strings.ToLower(name[:1]) == name[:1] {
			names = append(names, name)
		}
	}
	return strings.Join(names, ".")
}
