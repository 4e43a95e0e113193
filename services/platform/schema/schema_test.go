package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"switchyard.dev/services/platform/schema"
)

// reference reports what library jsonschema says of a payload.
func reference(t *testing.T, text, payload string) bool {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("test:///schema", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("test:///schema")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(value) == nil
}

func compile(t *testing.T, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

const tree = `{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","required":["v"],"properties":{"v":{"type":"integer"},` +
	`"sub":{"type":"array","items":{"$ref":"#/$defs/node"}}},"unevaluatedProperties":false}}}`

// Each schema with payloads that follow it and payloads that don't, of which the library says the same, with the places
// and rules that are told.
var cases = map[string]struct {
	schema string
	right  []string
	wrong  map[string]string
}{
	"true":  {`true`, []string{`{}`}, nil},
	"false": {`false`, nil, map[string]string{`{}`: "false: must be absent"}},
	"types": {
		`{"properties":{"a":{"type":["integer","string","null"]},"b":{"type":"number"},"c":{"type":"boolean"}}}`,
		[]string{`{"a":1}`, `{"a":1.0}`, `{"a":10e-1}`, `{"a":"x"}`, `{"a":null}`, `{"b":1}`, `{"b":-1.5e3}`, `{"c":false}`, `{"d":[]}`},
		map[string]string{
			`{"a":1.5}`: "/a: type: must be null or integer or string", `{"a":{}}`: "/a: type: must be null or integer or string",
			`{"b":"1"}`: "/b: type: must be number", `{"c":0,"b":[]}`: "/b: type: must be number; /c: type: must be boolean",
		},
	},
	"required": {
		`{"required":["id","kind"],"properties":{"s/~":{"required":["x"]}}}`,
		[]string{`{"id":1,"kind":2}`},
		map[string]string{
			`{}`:                              `required: must have the property "id"; required: must have the property "kind"`,
			`{"id":1,"kind":1,"s/~":{"y":1}}`: `/s~1~0: required: must have the property "x"`,
		},
	},
	"numbers": {
		`{"properties":{"a":{"minimum":1,"maximum":9.5},"b":{"exclusiveMinimum":0,"exclusiveMaximum":1e2},"c":{"multipleOf":0.01}}}`,
		[]string{`{"a":1}`, `{"a":9.5}`, `{"b":99.99}`, `{"c":19.99}`, `{"c":1e2}`, `{"c":0}`, `{"a":"x"}`},
		map[string]string{
			`{"a":0.999}`: "/a: minimum: must be at least 1", `{"a":9.51}`: "/a: maximum: must be at most 9.5",
			`{"b":0}`: "/b: exclusiveMinimum: must be more than 0", `{"b":100}`: "/b: exclusiveMaximum: must be less than 100",
			`{"c":0.001}`: "/c: multipleOf: must be a multiple of 0.01",
		},
	},
	"texts": {
		`{"properties":{"a":{"minLength":2,"maxLength":3,"pattern":"^[a-zäöü]+$","format":"date"}}}`,
		[]string{`{"a":"äö"}`, `{"a":7}`},
		map[string]string{
			`{"a":"x"}`: "/a: minLength: must have 2 characters or more", `{"a":"abcd"}`: "/a: maxLength: must have 3 characters or fewer",
			`{"a":"A1"}`: "/a: pattern: must match ^[a-zäöü]+$",
		},
	},
	"values": {
		`{"properties":{"a":{"const":{"x":[1,2.50]}},"b":{"enum":["eur",null,100,[true]]}}}`,
		[]string{`{"a":{"x":[1.0,2.5]}}`, `{"b":1e2}`, `{"b":[true]}`, `{"b":null}`},
		map[string]string{
			`{"a":{"x":[2.5,1]}}`: "/a: const: must be the value of the schema", `{"b":"usd"}`: "/b: enum: must be one of the 4 values of the schema",
			`{"b":[false]}`: "/b: enum: must be one of the 4 values of the schema",
		},
	},
	"objects": {
		`{"minProperties":1,"maxProperties":2,"propertyNames":{"maxLength":3},"properties":{"a":{}},"patternProperties":{"^x":{"type":"string"}},` +
			`"additionalProperties":{"type":"integer"},"dependentRequired":{"a":["b"]},"dependentSchemas":{"xx":{"required":["c"]}}}`,
		[]string{`{"a":1,"b":1}`, `{"x":"y"}`, `{"xx":"","c":1}`},
		map[string]string{
			`{}`: "minProperties: must have 1 properties or more", `{"b":1,"c":1,"d":1}`: "maxProperties: must have 2 properties or fewer",
			`{"long":1}`: "/long: maxLength: must have 3 characters or fewer", `{"x":1}`: "/x: type: must be string", `{"q":""}`: "/q: type: must be integer",
			`{"a":1}`: `dependentRequired: must have the property "b"`, `{"xx":"x"}`: `required: must have the property "c"`,
		},
	},
	"no other properties": {
		`{"properties":{"a":{}},"additionalProperties":false}`,
		[]string{`{"a":1}`, `{}`},
		map[string]string{`{"secret":1}`: "/secret: additionalProperties: must be absent: the schema does not know it"},
	},
	"arrays": {
		`{"properties":{"a":{"minItems":1,"maxItems":3,"uniqueItems":true,"prefixItems":[{"type":"string"}],"items":{"type":"integer"}},` +
			`"b":{"contains":{"type":"null"},"minContains":2,"maxContains":3},"c":{"contains":{"const":1}},"d":{"contains":{},"minContains":0}}}`,
		[]string{`{"a":["x",1,2]}`, `{"a":["x"]}`, `{"b":[null,1,null]}`, `{"c":[0,1]}`, `{"d":[]}`},
		map[string]string{
			`{"a":[]}`: "/a: minItems: must have 1 items or more", `{"a":["x",1,2,3]}`: "/a: maxItems: must have 3 items or fewer",
			`{"a":["x",1,1.0]}`: "/a: uniqueItems: must not have equal items", `{"a":[1]}`: "/a/0: type: must be string",
			`{"a":["x",1,"y"]}`: "/a/2: type: must be integer", `{"b":[null]}`: "/b: contains: must have 2 or more items of the wanted form, has 1",
			`{"b":[null,null,null,null]}`: "/b: maxContains: must have 3 or fewer items of the wanted form, has 4",
			`{"c":[]}`:                    "/c: contains: must have 1 or more items of the wanted form, has 0",
		},
	},
	"logic": {
		`{"properties":{"a":{"anyOf":[{"type":"string"},{"minimum":5}]},"b":{"oneOf":[{"multipleOf":3},{"multipleOf":5}]},"c":{"not":{"type":"null"}},` +
			`"d":{"allOf":[{"minimum":1},{"maximum":9}]},"e":{"if":{"type":"string"},"then":{"minLength":2},"else":{"minimum":2}}}}`,
		[]string{`{"a":"x","b":3,"c":1,"d":5,"e":"xx"}`, `{"a":5,"b":10,"e":2}`},
		map[string]string{
			`{"a":4}`: "/a: anyOf: must follow one or more of 2 schemas, but follows none", `{"c":null}`: "/c: not: must not follow this schema",
			`{"b":15}`: "/b: oneOf: must follow exactly one of 2 schemas, but follows more", `{"b":7}`: "/b: oneOf: must follow exactly one of 2 schemas, but follows none",
			`{"d":0}`: "/d: minimum: must be at least 1", `{"e":"x"}`: "/e: minLength: must have 2 characters or more", `{"e":1}`: "/e: minimum: must be at least 2",
		},
	},
	"references": {
		tree,
		[]string{`{"v":1}`, `{"v":1,"sub":[{"v":2,"sub":[{"v":3}]}]}`},
		map[string]string{
			`{"v":1,"sub":[{"v":2,"sub":[{"v":"x"}]}]}`: "/sub/0/sub/0/v: type: must be integer",
			`{"v":1,"sub":[{"v":1,"w":1}]}`:             "/sub/0/w: false: must be absent",
		},
	},
	"anchors": {
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://example.com/s","properties":{"a":{"$ref":"#t"},"b":{"$ref":"#/properties/a"},` +
			`"c":{"$ref":"#/$defs/a%25%20b"}},"$defs":{"t":{"$anchor":"t","type":"string"},"a% b":{"type":"null"}}}`,
		[]string{`{"a":"x","b":"y","c":null}`},
		map[string]string{`{"b":1}`: "/b: type: must be string", `{"c":1}`: "/c: type: must be null"},
	},
	"unevaluated properties": {
		`{"allOf":[{"properties":{"a":{}}},{"patternProperties":{"^p":{}}}],"anyOf":[{"properties":{"b":{"const":1}},"required":["b"]},{"properties":{"c":{}}}],` +
			`"if":{"required":["d"]},"then":{"properties":{"d":{}}},"unevaluatedProperties":{"type":"integer"}}`,
		[]string{`{"a":"","p1":"","b":1,"c":"","d":"","z":7}`, `{"c":""}`},
		map[string]string{`{"b":"x"}`: "/b: type: must be integer", `{"z":""}`: "/z: type: must be integer"},
	},
	"unevaluated properties of a branch that fails": {
		`{"anyOf":[{"properties":{"a":{"type":"string"}}},true],"unevaluatedProperties":false}`,
		[]string{`{"a":"x"}`, `{}`},
		map[string]string{`{"a":1}`: "/a: false: must be absent"},
	},
	"unevaluated within not": {
		`{"not":{"properties":{"a":{"const":1}},"required":["a"]},"unevaluatedProperties":false}`, []string{`{}`}, map[string]string{`{"b":2}`: "/b: false: must be absent"},
	},
	"unevaluated items": {
		`{"properties":{"a":{"prefixItems":[{}],"contains":{"type":"string"},"unevaluatedItems":{"type":"null"}},"b":{"allOf":[{"items":{}}],"unevaluatedItems":false},` +
			`"c":{"oneOf":[{"prefixItems":[{},{}]},{"maxItems":1}],"unevaluatedItems":false}}}`,
		[]string{`{"a":[1,"x",null,"y"]}`, `{"b":[1,2]}`, `{"c":[1,2]}`},
		map[string]string{`{"a":["x",2]}`: "/a/1: type: must be null", `{"c":[1,2,3]}`: "/c/2: false: must be absent"},
	},
	"a property named as a keyword": {`{"properties":{"$ref":{"type":"string"},"$id":{},"$dynamicRef":{}},"examples":[{"$ref":"x"}]}`, []string{`{"$ref":"x"}`}, map[string]string{`{"$ref":1}`: "/$ref: type: must be string"}},
}

func TestCheck(t *testing.T) {
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			s := compile(t, tt.schema)
			for _, payload := range tt.right {
				if found := s.Check([]byte(payload)); len(found) > 0 || !reference(t, tt.schema, payload) {
					t.Errorf("%s: %v", payload, found)
				}
			}
			for payload, want := range tt.wrong {
				var rules []string
				for _, violation := range s.Check([]byte(payload)) {
					rules = append(rules, violation.String())
				}
				if got := strings.Join(rules, "; "); got != want || reference(t, tt.schema, payload) {
					t.Errorf("%s: %s, want %s", payload, got, want)
				}
			}
		})
	}
}

// A payload with many faults has the first ten, always the same, and none of its values.
func TestViolationsAreBounded(t *testing.T) {
	s := compile(t, `{"additionalProperties":{"type":"integer"}}`)
	var payload strings.Builder
	for i := range 500 {
		fmt.Fprintf(&payload, `,"k%03d":"sk-secret-%d"`, i, i)
	}
	text := "{" + payload.String()[1:] + "}"
	first := s.Check([]byte(text))
	if len(first) != schema.MaxViolations || first[0].Pointer != "/k000" || strings.Contains(fmt.Sprint(first), "secret") {
		t.Errorf("violations: %v", first)
	}
	for range 5 {
		if diff := cmp.Diff(first, s.Check([]byte(text))); diff != "" {
			t.Fatalf("again (-first +now):\n%s", diff)
		}
	}
	long := s.Check([]byte(`{"` + strings.Repeat("ü", 5000) + `":"x"}`))
	if len(long) != 1 || len(long[0].Pointer) > 210 {
		t.Errorf("the pointer has %d bytes", len(long[0].Pointer))
	}
}

func TestCompileRefuses(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 40) + "{}" + strings.Repeat("}", 40)
	for name, tt := range map[string]struct{ text, want string }{
		"no JSON":                   {`{"type":`, "must be JSON"},
		"a list":                    {`[]`, "must be an object or a boolean"},
		"a type that isn't one":     {`{"properties":{"a":{"type":"text"}}}`, "/properties/a/type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'"},
		"a length below zero":       {`{"minLength":-1}`, "/minLength: minimum: got -1, want 0"},
		"a length beyond a word":    {`{"properties":{"a":{"maxLength":1e30}}}`, "/properties/a/maxLength: must be at most 2147483647"},
		"a regular expression":      {`{"properties":{"a/b":{"pattern":"(?=x)"}}}`, "/properties/a~1b/pattern: must be a regular expression of RE2, without lookaround and backreferences"},
		"a property's expression":   {`{"patternProperties":{"[":{}}}`, "/patternProperties: must be a regular expression of RE2, without lookaround and backreferences"},
		"a long expression":         {`{"pattern":"` + strings.Repeat("a", 600) + `"}`, "/pattern: must not be longer than 512 bytes"},
		"an expression that grows":  {`{"pattern":"([a-z]{30}[0-9]{30}[a-f]{30}[0-1]{30}x{20}){30}"}`, "/pattern: is too large when its repetitions are written out"},
		"another document":          {`{"properties":{"a":{"$ref":"https://example.com/s"}}}`, "/properties/a/$ref: must begin with #: a schema refers only to itself"},
		"a file":                    {`{"$ref":"file:///etc/passwd"}`, "/$ref: must begin with #: a schema refers only to itself"},
		"a reference to nothing":    {`{"$ref":"#/$defs/x"}`, "/$ref: must refer to a schema within this document, such as #/$defs/name"},
		"a reference to a value":    {`{"$ref":"#/examples/0","examples":[{}]}`, "/$ref: must refer to a schema within this document, such as #/$defs/name"},
		"an anchor that isn't":      {`{"$ref":"#x"}`, "/$ref: must refer to a schema within this document, such as #/$defs/name"},
		"a reference to itself":     {`{"$ref":"#"}`, "must not apply itself to the same value"},
		"a circle":                  {`{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}},"properties":{"x":{"$ref":"#/$defs/a"}}}`, "/$defs/a: must not apply itself to the same value"},
		"another draft":             {`{"$schema":"http://json-schema.org/draft-07/schema#"}`, "/$schema: must be https://json-schema.org/draft/2020-12/schema, at the beginning of the document"},
		"a name within":             {`{"items":{"$id":"x"}}`, "/items/$id: must be a text, at the beginning of the document"},
		"a dynamic reference":       {`{"items":{"$dynamicRef":"#x"}}`, "/items/$dynamicRef: is not supported"},
		"dependencies of old":       {`{"dependencies":{}}`, "/dependencies: is not supported"},
		"a number of many digits":   {`{"minimum":1e100000}`, "/minimum: must not have more than 400 digits"},
		"a number of many more":     {`{"enum":[[1e99999999999999999999]]}`, "/enum/0/0: must not have more than 400 digits"},
		"deep schemas":              {deep, strings.Repeat("/items", 33) + ": must not be nested deeper than 32 schemas"},
		"deeper than JSON may be":   {strings.Repeat(`{"items":`, 300) + "{}" + strings.Repeat("}", 300), "must be JSON, not be nested deeper than 200 levels"},
		"many schemas":              {`{"allOf":[` + strings.Repeat("{},", 2000) + `{}]}`, "must not hold more than 2000 arrays and objects"},
		"a large schema":            {`{"title":"` + strings.Repeat("x", schema.MaxSize) + `"}`, "must not be larger than 65536 bytes"},
		"an array without a schema": {`{"items":[{}]}`, "/items: must be an object or a boolean"},
		"a list that isn't":         {`{"allOf":{}}`, "/allOf: got object, want array"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schema.Compile([]byte(tt.text))
			refused, ok := errors.AsType[*schema.Error](err)
			if !ok || !strings.HasPrefix(refused.Error(), tt.want) && refused.Error() != tt.want {
				t.Errorf("err = %v\nwant  %s", err, tt.want)
			}
		})
	}
}
