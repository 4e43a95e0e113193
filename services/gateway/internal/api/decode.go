package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// decode strictly decodes a field of free JSON (content parts, tool choice, response format). Errors name the field.
func decode(r io.Reader, into any) error {
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return refuse("body", err)
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
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		name, _ = strconv.Unquote(name)
		if !screen.IsName(name) {
			return apierr.Invalid(field, "holds an unknown field")
		}
		return apierr.Invalid(field, fmt.Sprintf("unknown field %q", name))
	}
	return apierr.Invalid(field, "can't be read as JSON")
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
