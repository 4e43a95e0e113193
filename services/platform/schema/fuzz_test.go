package schema_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"switchyard.dev/services/platform/schema"
)

// random makes schemas and payloads of few names and values, so that they meet often.
type random struct{ *rand.Rand }

func (r random) name() string { return string(rune('a' + r.IntN(4))) }

func (r random) value(depth int) any {
	switch n := r.IntN(9); {
	case n == 0 && depth > 0:
		return map[string]any{r.name(): r.value(depth - 1), r.name(): r.value(depth - 1)}
	case n == 1 && depth > 0:
		return []any{r.value(depth - 1), r.value(depth - 1), r.value(depth - 1)}
	case n == 2:
		return nil
	case n == 3:
		return r.IntN(2) == 0
	case n < 6:
		return r.name()
	}
	return json.Number(fmt.Sprintf("%d.%de%d", r.IntN(4), 5*r.IntN(2), r.IntN(2)))
}

// subschema returns a schema of few keywords, which may refer to #/$defs/x except where that would be a circle.
func (r random) subschema(depth int, refer bool) any {
	if depth == 0 {
		return r.IntN(4) > 0
	}
	s := map[string]any{}
	for range 1 + r.IntN(3) {
		in, same := func() any { return r.subschema(depth-1, true) }, func() any { return r.subschema(depth-1, false) }
		few := func(of func() any) []any { return []any{of(), of()} }
		keywords := []func(){
			func() { s["type"] = []string{"object", "array", "string", "number", "integer", "null"}[r.IntN(6)] },
			func() { s["properties"] = map[string]any{r.name(): in(), r.name(): in()} },
			func() { s["patternProperties"] = map[string]any{"^[" + r.name() + "d]": in()} },
			func() { s["additionalProperties"] = in() },
			func() { s["unevaluatedProperties"] = in() },
			func() { s["propertyNames"] = map[string]any{"enum": []any{r.name(), r.name(), r.name()}} },
			func() { s["required"] = []any{r.name()} },
			func() { s["dependentRequired"] = map[string]any{r.name(): []any{r.name()}} },
			func() { s["dependentSchemas"] = map[string]any{r.name(): same()} },
			func() { s["minProperties"], s["maxItems"] = r.IntN(2), r.IntN(4) },
			func() { s["items"] = in() },
			func() { s["prefixItems"] = few(in) },
			func() { s["contains"], s["minContains"], s["maxContains"] = in(), r.IntN(3), 1+r.IntN(2) },
			func() { s["unevaluatedItems"] = in() },
			func() { s["uniqueItems"] = true },
			func() { s["enum"] = few(func() any { return r.value(1) }) },
			func() { s["const"] = r.value(1) },
			func() { s["minimum"], s["exclusiveMaximum"] = r.IntN(3), 1+r.IntN(20) },
			func() { s["multipleOf"] = json.Number("0.5") },
			func() { s["pattern"] = "[" + r.name() + r.name() + "]" },
			func() { s["allOf"] = few(same) },
			func() { s["anyOf"] = few(same) },
			func() { s["oneOf"] = few(same) },
			func() { s["not"] = same() },
			func() { s["if"], s["then"], s["else"] = same(), same(), same() },
			func() {
				if refer {
					s["$ref"] = "#/$defs/x"
				}
			},
		}
		keywords[r.IntN(len(keywords))]()
	}
	if enum, ok := s["enum"].([]any); ok && fmt.Sprint(enum[0]) == fmt.Sprint(enum[1]) {
		delete(s, "enum") // Its values must differ.
	}
	return s
}

// FuzzCheck compares the verdict on any schema and payload with the library's.
func FuzzCheck(f *testing.F) {
	for i := range uint64(400) {
		f.Add(i)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		root, ok := r.subschema(3, true).(map[string]any)
		if !ok {
			return
		}
		root["$defs"] = map[string]any{"x": r.subschema(2, false)}
		text, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		s, err := schema.Compile(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for range 20 {
			payload, err := json.Marshal(map[string]any{r.name(): r.value(2), r.name(): r.value(2), r.name(): r.value(2)})
			if err != nil {
				t.Fatal(err)
			}
			found := s.Check(payload)
			if want := reference(t, string(text), string(payload)); (len(found) == 0) != want {
				t.Fatalf("schema %s\npayload %s\nfound %v, want valid = %t", text, payload, found, want)
			}
		}
	})
}

// FuzzCompile takes any text: what is not refused can be checked against.
func FuzzCompile(f *testing.F) {
	for _, tt := range cases {
		f.Add([]byte(tt.schema), []byte(`{"a":[1,{"b":null}]}`))
	}
	f.Fuzz(func(_ *testing.T, text, payload []byte) {
		if s, err := schema.Compile(text); err == nil {
			_ = s.Check(payload)
		}
	})
}
