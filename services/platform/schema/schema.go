// Package schema checks payloads against customers' JSON Schemas (draft 2020-12, and draft-07 where it is asked to).
// Both are bounded: a schema is refused if it is too large or refers to other documents, and a check ends after 2 ms of
// processor time, or 40 ns per byte for payloads above 50 kB, because schemas that refer to themselves can cause far more
// work than a payload has bytes. Regular expressions never get more than 2 ms. Library jsonschema reads the schemas. It
// doesn't bound its work when it checks values, builds an error for every branch that doesn't match, and repeats values
// in its errors, so package schema walks the schemas itself.
package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"switchyard.dev/services/platform/jsoncheck"
)

// The bounds of a schema.
const (
	// MaxSize is the largest schema, in bytes.
	MaxSize = 64 << 10
	// maxContainers is how many arrays and objects it may hold, maxDepth how deep its subschemas may be nested.
	maxContainers, maxDepth = 2000, 32
	// maxPattern is the longest regular expression, maxProgram the size of the largest one, and maxPrograms that of all of
	// a schema, in instructions of the compiled form.
	maxPattern, maxProgram, maxPrograms = 512, 4000, 20_000
	// MaxViolations is how many violations a check returns.
	MaxViolations = 10
	// maxText bounds the pointer and the rule of a violation, in bytes.
	maxText = 200
)

// Violation is a place where a value breaks a schema, or a schema the rules of schemas.
type Violation struct {
	// Pointer is the JSON pointer of the place.
	Pointer string
	// Rule is the keyword and what it wants. It holds no value of a payload.
	Rule string
}

// String returns pointer and rule.
func (v Violation) String() string {
	if v.Pointer == "" {
		return v.Rule
	}
	return v.Pointer + ": " + v.Rule
}

// Error is why a text is no schema that can be used.
type Error struct{ Violation }

// Error returns the place and the rule.
func (e *Error) Error() string { return e.String() }

func refuse(pointer, rule string) error {
	return &Error{Violation{cut(pointer), cut(rule)}}
}

// cut returns the beginning of a text, which ends with a whole character.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// Schema is a compiled schema. It may be used by several goroutines.
type Schema struct {
	root *jsonschema.Schema
	// prepared has what the walk needs beside what the library keeps.
	prepared map[*jsonschema.Schema]*prepared
	// weight is about a kilobyte of memory for each unit.
	weight int
}

// name is that of the document for the library.
const name = "schema:///document"

// Compile reads a schema of draft 2020-12. Its errors are of type *Error.
func Compile(text []byte) (*Schema, error) { return compile(text, false) }

// CompileDeclared reads a schema of draft 2020-12, or of draft-07 where its $schema says so: with the meaning that its
// keywords have there. Its errors are of type *Error, and their places those of the schema in draft 2020-12.
func CompileDeclared(text []byte) (*Schema, error) { return compile(text, true) }

func compile(text []byte, older bool) (*Schema, error) {
	switch {
	case len(text) > MaxSize:
		return nil, refuse("", fmt.Sprintf("must not be larger than %d bytes", MaxSize))
	case !jsoncheck.Valid(text):
		return nil, refuse("", "must be JSON, "+strings.TrimPrefix(jsoncheck.RuleDepth, "must "))
	case jsoncheck.Containers(text) > maxContainers:
		return nil, refuse("", fmt.Sprintf("must not hold more than %d arrays and objects", maxContainers))
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, refuse("", "must be JSON")
	}
	if err := scan(document, older); err != nil {
		return nil, err
	}
	expressions := patterns{compiled: make(map[string]*pattern)}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(expressions.compile)
	if err := compiler.AddResource(name, document); err != nil {
		return nil, explain(err)
	}
	root, err := compiler.Compile(name)
	if err != nil {
		return nil, explain(err)
	}
	s := &Schema{root: root, prepared: make(map[*jsonschema.Schema]*prepared)}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	s.weight = len(s.prepared) + expressions.size/16 + len(text)/1024
	return s, nil
}

// noLoader loads no document. No schema needs it, since scan refuses references to others.
type noLoader struct{}

var errOther = errors.New("the schema refers to another document")

func (noLoader) Load(string) (any, error) { return nil, errOther }

// explain returns an error of the library as an *Error.
func explain(err error) error {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if found, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			place := found.InstanceLocation
			for len(found.Causes) > 0 {
				if found = found.Causes[0]; len(found.InstanceLocation) > 0 { // A property's name has none.
					place = found.InstanceLocation
				}
			}
			rule := found.ErrorKind.LocalizedString(message.NewPrinter(language.English))
			if format, ok := found.ErrorKind.(*kind.Format); ok && format.Want == "regex" {
				rule = format.Err.Error()
			}
			return refuse(pointerOf(place), rule)
		}
	}
	if invalid, ok := errors.AsType[*jsonschema.InvalidRegexError](err); ok {
		return refuse(placeOf(invalid.URL), cmp.Or(invalid.Err, errPattern).Error())
	}
	return refuse("", "is no JSON Schema of draft 2020-12")
}

// pointerOf returns a JSON pointer (RFC 6901). It reads no more of the tokens than cut keeps, since a payload's names
// may be as long as the payload.
func pointerOf(tokens []string) string {
	var text strings.Builder
	for _, token := range tokens {
		if text.Len() > maxText {
			break
		}
		text.WriteString("/" + escaper.Replace(token[:min(len(token), maxText)]))
	}
	return text.String()
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// Check returns where a JSON object breaks the schema: at most MaxViolations places, in the order of their pointers; none
// if it follows the schema. The payload has passed jsoncheck.
func (s *Schema) Check(payload []byte) []Violation {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return []Violation{{Rule: "must be JSON"}}
	}
	e := evaluation{prepared: s.prepared, cost: costOf(len(payload)), matcher: matcher{budget: maxCost}}
	valid := e.value(s.root, value, false, nil)
	if e.cost < 0 {
		return []Violation{{Rule: "takes too long to be checked against the schema: it is too large or its schema branches too much"}}
	}
	if valid {
		return nil
	}
	slices.SortFunc(e.violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Rule, b.Rule))
	})
	return e.violations
}
