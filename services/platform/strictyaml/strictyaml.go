// Package strictyaml reads the YAML files that settings name. A field that is not known is an error. Errors name lines
// and what is wanted there; they never repeat a value, which may be a secret in the wrong file, nor a type of Go.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ErrEmpty is the error of a text without content.
var ErrEmpty = errors.New("the file is empty")

const (
	// maxFields bounds the fields of one mapping: the library compares each with all others.
	maxFields = 2048
	// maxProblems is how many problems an error names.
	maxProblems = 10
)

// Decode reads the only document of a text into what into points to. Several problems are separated by "; ". Errors of
// into's own UnmarshalYAML methods are returned as they are.
func Decode(text []byte, into any) error {
	if err := check(text); err != nil {
		return err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	return translate(decoder.Decode(into), into)
}

// check refuses what can't be decoded in a time that grows with the size of the text, and what would be left out.
func check(text []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, next yaml.Node
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return ErrEmpty
	} else if err != nil {
		return translate(err, nil)
	}
	if line := tooWide(&root); line > 0 {
		return fmt.Errorf("line %d: want a mapping of at most %d fields", line, maxFields)
	}
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return translate(err, nil)
	}
	return fmt.Errorf("line %d: want one document, not a second one behind ---", next.Line)
}

// tooWide returns the line of a mapping with too many fields, or 0.
func tooWide(n *yaml.Node) int {
	if n.Kind == yaml.MappingNode && len(n.Content) > 2*maxFields {
		return n.Line
	}
	for _, child := range n.Content {
		if line := tooWide(child); line > 0 {
			return line
		}
	}
	return 0
}

// translate returns an error of the library in words that an operator knows.
func translate(err error, into any) error {
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		message, own := strings.CutPrefix(err.Error(), "yaml: ")
		if !own {
			return err
		}
		for _, rule := range syntax {
			if rule.of.MatchString(message) {
				return errors.New(rule.text)
			}
		}
		return errors.New(message)
	}
	known := make(kinds)
	known.add(reflect.TypeOf(into))
	var problems []string
	for _, problem := range wrong.Errors[:min(len(wrong.Errors), maxProblems)] {
		problems = append(problems, known.translate(problem))
	}
	if more := len(wrong.Errors) - maxProblems; more > 0 {
		problems = append(problems, fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(problems, "; "))
}

// syntax has the errors of the library that repeat a part of the text, and what is said instead.
var syntax = []struct {
	of   *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`^unknown anchor `), "an alias (a value that begins with *) has no anchor; quote the value if it is none"},
	{regexp.MustCompile(`^anchor '.*value contains itself`), "an anchor contains itself"},
	{regexp.MustCompile(`^(invalid map key|runtime error)`), "a name of a field is a list or a mapping; want a text"},
	{regexp.MustCompile(`^cannot decode `), "a value is not of the kind that its tag says"},
}

// The library's messages about single values. Values may hold any text.
var (
	kindOf    = regexp.MustCompile("(?s)^(line \\d+: )cannot unmarshal (\\S*)(?: `.*`)? into (.*)$")
	notKnown  = regexp.MustCompile(`(?s)^(line \d+: )field (.*) not found in type `)
	alreadyIs = regexp.MustCompile(`(?s)^(line \d+: )field (.*) already set in type `)
	defined   = regexp.MustCompile(`(?s)^(line \d+: )mapping key .* already defined at (line \d+)$`)
	anyLine   = regexp.MustCompile(`^line \d+: `)
)

// plain matches what may be repeated: names of fields.
var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

func (k kinds) translate(problem string) string {
	if match := kindOf.FindStringSubmatch(problem); match != nil {
		return match[1] + k.want(match[2], match[3])
	}
	if match := notKnown.FindStringSubmatch(problem); match != nil {
		return match[1] + field(match[2]) + ": there is no such field"
	}
	if match := alreadyIs.FindStringSubmatch(problem); match != nil {
		return match[1] + field(match[2]) + ": appears twice"
	}
	if match := defined.FindStringSubmatch(problem); match != nil {
		return match[1] + "the field is already set at " + match[2]
	}
	return anyLine.FindString(problem) + "the value is not one that is wanted here"
}

func field(name string) string {
	if plain.MatchString(name) {
		return "field " + name
	}
	return "a field"
}

// given has what the library's tags of values are called.
var given = map[string]string{
	"!!str": "a text", "!!int": "a whole number", "!!float": "a number with decimals", "!!bool": "true or false", "!!null": "nothing",
	"!!seq": "a list", "!!map": "a mapping", "!!timestamp": "a date", "!!binary": "binary data",
}

// want says what is wanted in place of a value with a tag, given the name of the type that doesn't take it.
func (k kinds) want(tag, typeName string) string {
	is, known := given[tag]
	if !known {
		is = "a value with a tag of its own"
	}
	wanted := k.name(typeName)
	switch {
	case wanted == "":
		return is + " is not wanted here"
	case is == given["!!int"] && (wanted == is || wanted == natural):
		return "the number is out of range"
	}
	return "want " + wanted + ", not " + is
}

// natural is what a number that may not be negative is called.
const natural = "a whole number of zero or more"

// kinds has the types within a document by their names, as the library's messages have them.
type kinds map[string]reflect.Type

func (k kinds) add(t reflect.Type) {
	if _, seen := k[t.String()]; seen {
		return
	}
	k[t.String()] = t
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		k.add(t.Elem())
	case reflect.Map:
		k.add(t.Key())
		k.add(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			k.add(f.Type)
		}
	default:
	}
}

// name returns what values of a type are called; empty for a type that is not known.
func (k kinds) name(typeName string) string {
	t, ok := k[typeName]
	switch {
	case typeName == "time.Duration":
		return "a duration such as 30s"
	case ok:
		return kindName(t.Kind())
	case strings.HasPrefix(typeName, "[]"):
		return kindName(reflect.Slice)
	case strings.HasPrefix(typeName, "map["), strings.HasPrefix(typeName, "struct "):
		return kindName(reflect.Map)
	}
	return builtin[typeName]
}

// builtin has what values of types without a package are called, which a document's own methods may use.
var builtin = map[string]string{
	"string": kindName(reflect.String), "bool": kindName(reflect.Bool), "int": kindName(reflect.Int), "int64": kindName(reflect.Int64),
	"float64": kindName(reflect.Float64),
}

func kindName(kind reflect.Kind) string {
	switch kind {
	case reflect.Bool:
		return given["!!bool"]
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return given["!!int"]
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return natural
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return given["!!str"]
	case reflect.Slice, reflect.Array:
		return given["!!seq"]
	case reflect.Map, reflect.Struct:
		return given["!!map"]
	default:
		return ""
	}
}
