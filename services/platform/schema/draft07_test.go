package schema_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"switchyard.dev/services/platform/schema"
	"switchyard.dev/services/platform/testkit/growth"
)

const of07 = `"$schema":"http://json-schema.org/draft-07/schema#"`

// older are schemas of draft-07 where it differs from draft 2020-12, and values for each.
var older = map[string]struct{ schema, values string }{
	"a form of zod":             {`"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false`, `{"a":"x"} {"a":1} {"a":"x","b":1} {}`},
	"what is beside $ref":       {`"properties":{"a":{"$ref":"#/definitions/x","maxLength":1,"type":"integer","prefixItems":[]}},"definitions":{"x":{"type":"string"}}`, `{"a":"long"} {"a":1}`},
	"a root that refers":        {`"$ref":"#/definitions/x","required":["no"],"definitions":{"x":{"required":["a"]}}`, `{"a":1} {"no":1}`},
	"items by place":            {`"properties":{"a":{"items":[{"type":"string"},{"type":"integer"}]}}`, `{"a":["x",1,null]} {"a":[1]} {"a":["x","y"]} {"a":[]}`},
	"and no others":             {`"properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}}`, `{"a":["x"]} {"a":["x",1]}`},
	"and others":                {`"properties":{"a":{"items":[{"type":"string"}],"additionalItems":{"type":"null"}}}`, `{"a":["x",null]} {"a":["x",1]}`},
	"others without items":      {`"properties":{"a":{"additionalItems":false}}`, `{"a":[1]}`},
	"others beside one":         {`"properties":{"a":{"items":{"type":"string"},"additionalItems":false}}`, `{"a":["x","y"]} {"a":[1]}`},
	"dependencies":              {`"dependencies":{"a":["b"],"b":{"required":["c"]},"d":true,"e":false}`, `{"a":1} {"a":1,"b":1,"c":1} {"b":1} {"b":1,"c":1} {"d":1} {"e":1} {}`},
	"a bound of contains":       {`"properties":{"a":{"contains":{"const":1},"minContains":2,"maxContains":0}}`, `{"a":[1]} {"a":[2]}`},
	"keywords that came later":  {`"dependentRequired":{"a":["b"]},"dependentSchemas":{"a":false},"unevaluatedProperties":false,"properties":{"x":{"prefixItems":[false],"unevaluatedItems":false}}`, `{"a":1,"x":[1]}`},
	"conditions and names":      {`"if":{"required":["a"]},"then":{"required":["b"]},"else":{"required":["c"]},"propertyNames":{"maxLength":2}`, `{"a":1} {"a":1,"b":1} {"c":1} {"c":1,"long":1}`},
	"a reference into $defs":    {`"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"items":[{"type":"string"}]}}`, `{"a":[1]} {"a":["x"]}`},
	"older within its branches": {`"anyOf":[{"dependencies":{"a":["b"]}},{"not":{"properties":{"a":{"items":[{"const":1}]}}}}]`, `{"a":[1]} {"a":[2]} {"a":[1],"b":1}`},
}

// A schema of draft-07 means what it means there, as the library reads it.
func TestDraft07(t *testing.T) {
	for name, test := range older {
		text := "{" + of07 + "," + test.schema + "}"
		compiled, err := schema.CompileDeclared([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("schema:///x", document); err != nil {
			t.Fatal(err)
		}
		library := compiler.MustCompile("schema:///x")
		for value := range strings.FieldsSeq(test.values) {
			parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(value)))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(compiled.Check([]byte(value))) == 0, library.Validate(parsed) == nil; got != want {
				t.Errorf("%s: %s: %v, want %v", name, value, got, want)
			}
		}
		if _, err := schema.Compile([]byte(text)); err == nil {
			t.Errorf("%s: taken as draft 2020-12", name)
		}
	}
}

func TestDialects(t *testing.T) {
	const want = "/$schema: must be https://json-schema.org/draft/2020-12/schema or http://json-schema.org/draft-07/schema#, at the beginning of the document"
	for text, want := range map[string]string{
		`{}`: "", `{"$schema":"https://json-schema.org/draft/2020-12/schema"}`: "", `{"$schema":"https://json-schema.org/draft/2020-12/schema#"}`: "",
		`{` + of07 + `}`: "", `{"$schema":"http://json-schema.org/draft-07/schema"}`: "",
		`{"$schema":"https://json-schema.org/draft/2019-09/schema"}`: want, `{"$schema":"http://json-schema.org/draft-04/schema#"}`: want,
		`{"$schema":"http://json-schema.org/schema#"}`: want, `{"$schema":7}`: want, `{"$schema":""}`: want,
		`{"properties":{"a":{` + of07 + `}}}`:                                     "/properties/a" + want,
		`{` + of07 + `,"properties":{"a":{` + of07 + `}}}`:                        "/properties/a" + want,
		`{` + of07 + `,"items":[7]}`:                                              "/prefixItems/0: must be an object or a boolean",
		`{` + of07 + `,"items":[]}`:                                               "/prefixItems: minItems: got 0, want 1",
		`{` + of07 + `,"dependencies":7}`:                                         "/dependencies: is not supported",
		`{` + of07 + `,"items":[{}],"not":{"$ref":"#/items/0"}}`:                  "/not/$ref: must refer to a schema within this document, such as #/$defs/name",
		`{` + of07 + `,"dependencies":{"a":7}}`:                                   "/dependentSchemas/a: must be an object or a boolean",
		`{` + of07 + `,"properties":{"a":{"$id":"#x"}}}`:                          "/properties/a/$id: must be a text, at the beginning of the document",
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","items":[{}]}`: "/items: must be an object or a boolean",
	} {
		_, err := schema.CompileDeclared([]byte(text))
		refused, _ := errors.AsType[*schema.Error](err)
		if want == "" && err != nil || want != "" && (refused == nil || refused.Error() != want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzDraft07(f *testing.F) {
	for _, test := range older {
		f.Add("{" + of07 + "," + test.schema + "}")
	}
	f.Fuzz(func(t *testing.T, text string) {
		compiled, err := schema.CompileDeclared([]byte(text))
		if err == nil {
			_ = compiled.Check([]byte(`{"a":["x",1]}`))
		} else if _, ok := errors.AsType[*schema.Error](err); !ok {
			t.Errorf("%v", err)
		}
	})
}

func TestDraft07GrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(growth.UpTo(48<<10, []growth.Input{
		growth.Number("dependencies", `{`+of07+`,"dependencies":{"":[]`, `,"p#":["a"],"q#":{}`, "}}"),
		growth.Repeat("places", `{`+of07+`,"items":[{}`, `,{"items":[{}]}`, "]}"),
		growth.Number("references", `{`+of07+`,"definitions":{"a":{}},"properties":{"":{}`, `,"p#":{"$ref":"#/definitions/a","title":""}`, "}}"),
	}), func(text []byte) { _, _ = schema.CompileDeclared(text) })...)
}
