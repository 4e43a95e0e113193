package wire

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// annotation is the keyword of a schema that mirrors an argument into a header.
const annotation = "x-mcp-header"

// maxParams bounds the arguments of a tool that are mirrored.
const maxParams = 64

// maxSafe is the largest integer that every reader of JSON keeps.
const maxSafe = 1<<53 - 1

// Param is an argument of a tool that a server of Modern wants in a header, too.
type Param struct {
	// Header is the whole name of the header.
	Header string
	// Path are the names of the members that lead to the argument.
	Path []string
}

// Errors of a schema whose annotations break a rule. A tool with such a schema is left out.
var (
	errParamName  = errors.New("x-mcp-header: must be a header's name of at most 128 characters")
	errParamTwice = errors.New("x-mcp-header: must be unique in a tool, in any case")
	errParamType  = errors.New("x-mcp-header: must be on a property of type string, integer or boolean")
	errParamPlace = errors.New("x-mcp-header: must be reachable through properties only")
	errParamMany  = errors.New("x-mcp-header: must be on at most 64 properties")
)

// Params returns the arguments that a tool's input schema mirrors into headers, in the schema's order. The schema has
// passed Check.
func Params(schema []byte) ([]Param, error) {
	w := paramWalk{seen: make(map[string]bool)}
	err := w.schema(schema, nil, true)
	return w.found, err
}

type paramWalk struct {
	found []Param
	seen  map[string]bool
}

// schema walks a schema and all that are in it. direct reports whether only properties lead to it; their names are path.
func (w *paramWalk) schema(value []byte, path []string, direct bool) error {
	if value[0] == '[' {
		return w.list(value)
	}
	var failure error
	var name, kind []byte
	Members(value, func(keyword string, value []byte) bool {
		switch keyword {
		case annotation:
			name = value
		case "type":
			kind = value
		case "default", "const", "enum", "examples": // Values, no schemas.
		case "properties":
			failure = w.named(value, path, direct)
		case "patternProperties", "$defs", "definitions", "dependentSchemas":
			failure = w.named(value, nil, false)
		default:
			failure = w.schema(value, nil, false)
		}
		return failure == nil
	})
	if failure != nil || name == nil {
		return failure
	}
	if !direct || len(path) == 0 {
		return errParamPlace
	}
	return w.add(name, kind, path)
}

// named walks the schemas of an object.
func (w *paramWalk) named(value []byte, path []string, direct bool) error {
	var failure error
	Members(value, func(name string, value []byte) bool {
		failure = w.schema(value, append(slices.Clip(path), name), direct)
		return failure == nil
	})
	return failure
}

// list walks the schemas of an array.
func (w *paramWalk) list(value []byte) error {
	var failure error
	Elements(value, func(value []byte) bool {
		failure = w.schema(value, nil, false)
		return failure == nil
	})
	return failure
}

// add takes an annotation.
func (w *paramWalk) add(name, kind []byte, path []string) error {
	text, ok := Text(name)
	if !ok || !isToken(text) {
		return errParamName
	}
	switch string(kind) {
	case `"string"`, `"integer"`, `"boolean"`:
	default:
		return errParamType
	}
	lower := strings.ToLower(text)
	if w.seen[lower] {
		return errParamTwice
	}
	if w.seen[lower] = true; len(w.seen) > maxParams {
		return errParamMany
	}
	w.found = append(w.found, Param{Header: HeaderParamPrefix + text, Path: path})
	return nil
}

// isToken reports whether a text is a token (RFC 9110, section 5.6.2) of at most 128 characters.
func isToken(text string) bool {
	for i := range len(text) {
		c := text[i]
		alphanumeric := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return text != "" && len(text) <= 128
}

// Value returns the header's value for a call's arguments, which have passed Check. ok is false if the header is left
// out: the argument is absent or null, or not of a type that a header carries.
func (p Param) Value(arguments []byte) (value string, ok bool) {
	at := arguments
	for _, step := range p.Path {
		var next []byte
		Members(at, func(name string, value []byte) bool {
			if name == step {
				next = value
			}
			return next == nil
		})
		if next == nil {
			return "", false
		}
		at = next
	}
	switch text := string(at); at[0] {
	case '"':
		text, ok := Text(at)
		return EncodeHeader(text), ok
	case 't', 'f':
		return text, true
	default:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= -maxSafe && n <= maxSafe {
			return text, true
		}
		return "", false
	}
}
