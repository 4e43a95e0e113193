package schema_test

import (
	"errors"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/testkit/growth"
)

// Keywords that a vendor doesn't enforce are described or refused, and open objects closed or refused; the rest stays
// unchanged.
func TestConvert(t *testing.T) {
	tables := map[string]*schema.Rules{"anthropic": &schema.Anthropic, "openai": &schema.OpenAI, "gemini": &schema.Gemini}
	for _, c := range []struct {
		given string
		// want holds, by vendor, a schema, "=" for the given one, or the text of an error.
		want map[string]string
	}{
		{`{"type":"object","properties":{"score":{"type":"integer","minimum":1,"maximum":10}},"required":["score"],"additionalProperties":false}`, map[string]string{
			"anthropic": `{"type":"object","properties":{"score":{"type":"integer","description":"{minimum: 1, maximum: 10}"}},"required":["score"],"additionalProperties":false}`,
			"openai":    "=", "gemini": "=",
		}},
		{`{"maxLength":5,"description":"a \"name\"","type":"string","pattern":"^a+$","format":"uri"}`, map[string]string{
			"anthropic": `{"description":"a \"name\"\n\n{maxLength: 5}","type":"string","pattern":"^a+$","format":"uri"}`,
			"openai":    `{"description":"a \"name\"\n\n{maxLength: 5, format: uri}","type":"string","pattern":"^a+$"}`,
			"gemini":    "s: this provider has no keyword",
		}},
		{`{"type":"string","pattern":"^(?=a)b"}`, map[string]string{"anthropic": `{"type":"string","description":"{pattern: ^(?=a)b}"}`}},
		{`{"type":"string","pattern":"(a)(b)\\9"}`, map[string]string{"anthropic": `{"type":"string","description":"{pattern: (a)(b)\\9}"}`, "openai": `{"type":"string","description":"{pattern: (a)(b)\\9}"}`}},
		{`{"type":"string","pattern":"\\d\\w\\."}`, map[string]string{"anthropic": "=", "openai": "="}},
		{`{"oneOf":[{"type":"string"}],"discriminator":{"propertyName":"k","mapping":{"a":"#/$defs/a"}}}`, map[string]string{
			"anthropic": `{"anyOf":[{"type":"string"}]}`, "openai": `{"anyOf":[{"type":"string"}]}`, "gemini": `{"oneOf":[{"type":"string"}]}`,
		}},
		{`{"type":"array","items":{"type":"string"},"minItems":1,"uniqueItems":true}`, map[string]string{
			"anthropic": `{"type":"array","items":{"type":"string"},"minItems":1,"description":"{uniqueItems: true}"}`,
		}},
		{`{"type":"array","items":{"type":"string"},"minItems":2}`, map[string]string{
			"anthropic": `{"type":"array","items":{"type":"string"},"description":"{minItems: 2}"}`, "openai": "=",
		}},
		{`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, map[string]string{
			"anthropic": `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`, "gemini": "=",
		}},
		{`{"type":"object"}`, map[string]string{"anthropic": `{"type":"object","additionalProperties":false}`, "gemini": "="}},
		{`{"type":"object","properties":{"a":{"type":"object"}},"required":["a"]}`, map[string]string{"anthropic": "s.properties.a: this provider takes no open objects"}},
		{`{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`, map[string]string{
			"anthropic": "s: this provider takes no open objects", "openai": "s: this provider takes no open objects", "gemini": "=",
		}},
		{`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, map[string]string{
			"anthropic": "=", "openai": "s.properties.a: this provider has no optional properties", "gemini": "=",
		}},
		{`{"oneOf":[{"type":"string"},{"const":1}],"x-order":1,"$schema":"x"}`, map[string]string{
			"anthropic": `{"anyOf":[{"type":"string"},{"const":1}]}`, "openai": `{"anyOf":[{"type":"string"},{"const":1}]}`,
			"gemini": `{"oneOf":[{"type":"string"},{"enum":[1]}],"$schema":"x"}`,
		}},
		{`{"allOf":[{"type":"string"}]}`, map[string]string{"anthropic": `{"anyOf":[{"type":"string"}]}`, "gemini": "s: this provider has no keyword"}},
		{`{"allOf":[{"type":"string"},{"enum":["a"]}]}`, map[string]string{"anthropic": "s.allOf: this provider joins no schemas"}},
		{`{"enum":["a",{"b":1}]}`, map[string]string{"anthropic": "s.enum: this provider takes no objects and lists", "openai": "="}},
		{`{"not":{"type":"string"}}`, map[string]string{"anthropic": "s: this provider has no keyword", "openai": "s: this provider has no keyword"}},
		{`{"type":["object","null"],"properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"$ref":"#/$defs/c"},"c":{"type":"string"}}}`, map[string]string{
			"anthropic": "=", "openai": "=", "gemini": "=",
		}},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/b~1c"}]},"b/c":{"$ref":"#/$defs/a"}}}`, map[string]string{
			"anthropic": "s: this provider has no recursive schemas", "openai": "=", "gemini": "=",
		}},
		{`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"],"additionalProperties":false}`, map[string]string{
			"anthropic": "s.properties.a.$ref: this provider has no recursive schemas", "openai": "=",
		}},
		{`{"anyOf":[{"$ref":"#/$defs/b","description":"d"}],"$defs":{"b":{"type":"string"}}}`, map[string]string{
			"anthropic": "=",
			"openai":    `{"anyOf":[{"anyOf":[{"$ref":"#/$defs/b"}],"description":"d"}],"$defs":{"b":{"type":"string"}}}`,
			"gemini":    `{"anyOf":[{"anyOf":[{"$ref":"#/$defs/b"}],"description":"d"}],"$defs":{"b":{"type":"string"}}}`,
		}},
		{`{"anyOf":[{"default":"x","$ref":"#/$defs/b","$comment":"c"}],"$defs":{"b":{"type":"string"}}}`, map[string]string{
			"openai": `{"anyOf":[{"anyOf":[{"$ref":"#/$defs/b"}],"description":"{default: x}"}],"$defs":{"b":{"type":"string"}}}`,
			"gemini": `{"anyOf":[{"default":"x","anyOf":[{"$ref":"#/$defs/b"}],"$comment":"c"}],"$defs":{"b":{"type":"string"}}}`,
		}},
		{`{"anyOf":[{"$ref":"#/$defs/b","$comment":"c","x-order":1}],"$defs":{"b":{"type":"string"}}}`, map[string]string{
			"openai": `{"anyOf":[{"$ref":"#/$defs/b"}],"$defs":{"b":{"type":"string"}}}`,
			"gemini": `{"anyOf":[{"$ref":"#/$defs/b","$comment":"c"}],"$defs":{"b":{"type":"string"}}}`,
		}},
		{`{"$ref":"#/$defs/b","anyOf":[{"type":"string"}],"$defs":{"b":{"type":"string"}}}`, map[string]string{
			"openai": "s: this provider takes one of anyOf", "gemini": "s: this provider takes one of anyOf",
		}},
		{`{"$ref":"https://schemas.example/a"}`, map[string]string{"anthropic": "s.$ref: this provider takes references to definitions"}},
		{`{"anyOf":[true]}`, map[string]string{"anthropic": "s.anyOf[]: this provider wants an object as schema"}},
		{`[1`, map[string]string{"anthropic": "s: is not valid JSON"}},
		{"", map[string]string{"anthropic": "="}},
	} {
		for vendor, want := range c.want {
			if want == "=" {
				want = c.given
			}
			got, err := tables[vendor].Convert("s", []byte(c.given))
			if err == nil && string(got) != want {
				t.Errorf("%s, %s:\n%s, want\n%s", vendor, c.given, got, want)
			}
			if err == nil {
				continue
			}
			if e, ok := errors.AsType[*provider.Error](err); !ok || !strings.HasPrefix(e.Text, want) {
				t.Errorf("%s, %s: %v, want %s", vendor, c.given, err, want)
			}
		}
	}
}

// The size counts optional properties at every depth, and each schema with a union once.
func TestMeasure(t *testing.T) {
	for given, want := range map[string]schema.Size{
		``:                   {},
		`{"a`:                {},
		`{"type":"object"}`:  {},
		`{"not":{"type":1}}`: {},
		`{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"]}`:                  {Optional: 1, Unions: 2},
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{},"c":{}},"required":["c"]}}}}`:                       {Optional: 2},
		`{"type":"object","properties":{"a":{"oneOf":[{"type":"string"}]}},"required":["a"],"$defs":{"d":{"type":"object","properties":{"e":{"$ref":"#"}}}}}`: {},
		`{"type":"object","properties":{"a":{"oneOf":[{"type":"string"}]}},"required":["a"],"$defs":{"d":{"type":"object","properties":{"e":{}}}}}`:           {Optional: 1, Unions: 1},
	} {
		if got := schema.Anthropic.Measure([]byte(given)); got != want {
			t.Errorf("%s: %+v, want %+v", given, got, want)
		}
	}
}

// Every converted schema is valid JSON, whatever the caller wrote, and converting it again changes nothing.
func FuzzConvert(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}`)
	f.Add(`{"items":{"$ref":"#/$defs/a","default":1,"description":"d"},"$defs":{"a":{"pattern":"\\4"}}}`)
	f.Add(`{"$defs":{"a":{"$ref":"#/$defs/a"}},"oneOf":[{"x-a":1},{"description":1,"maxItems":3}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, rules := range []*schema.Rules{&schema.Anthropic, &schema.OpenAI, &schema.Gemini} {
			got, err := rules.Convert("s", []byte(text))
			if err != nil || len(got) == 0 {
				continue
			}
			if !jsoncheck.Valid(got) {
				t.Fatalf("%q becomes %q", text, got)
			}
			if again, err := rules.Convert("s", got); err != nil || string(again) != string(got) {
				t.Errorf("%q becomes %q, and that %q, %v", text, got, again, err)
			}
		}
	})
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		rules       schema.Arguments
		given, want string
	}{
		{schema.Arguments{}, "", ""},
		{schema.Arguments{Required: true}, "", `{"type":"object"}`},
		{schema.Arguments{}, "{}", `{"type":"object"}`},
		{schema.Arguments{}, "null", `{"type":"object"}`},
		{schema.Arguments{}, `{"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`},
		{schema.Arguments{Listed: true}, `{"type":"object"}`, `{"properties":{},"type":"object"}`},
		{schema.Arguments{}, `{"type":"object"}`, `{"type":"object"}`},
		{schema.Arguments{}, `{"anyOf":[]}`, `{"anyOf":[]}`},
		{schema.Arguments{NoUnion: true}, `{"type":"object","oneOf":[]}`, "!"},
		{schema.Arguments{}, `[1]`, `[1]`},
		{schema.Arguments{}, `{"a`, `{"a`},
	} {
		got, err := c.rules.Fit("p", []byte(c.given))
		if string(got) != c.want && c.want != "!" || (err != nil) != (c.want == "!") {
			t.Errorf("%+v of %s: %s, %v, want %s", c.rules, c.given, got, err, c.want)
		}
	}
}

func TestConvertGrowsLinearly(t *testing.T) {
	inputs := append([]growth.Input{
		growth.Number("definitions in a chain", `{"$defs":{"a":{}`, `,"d#":{"$ref":"#/$defs/d#x"},"d#x":{"$ref":"#/$defs/a"}`, `}}`),
		growth.Number("properties", `{"type":"object","properties":{"a":{}`, `,"p#":{"type":"integer","minimum":#}`, `}}`),
		growth.Repeat("bounds", `{"type":"integer"`, `,"minimum":1`, `}`),
		growth.Repeat("references", `{"$defs":{"a":{"anyOf":[{}`, `,{"$ref":"#/$defs/b"}`, `]},"b":{"$ref":"#/$defs/a"}}}`),
		growth.Nest("items", `{"items":`, "{}", "}"),
	}, growth.ValidJSON...)
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		_, _ = schema.Anthropic.Convert("s", text)
		_, _ = schema.OpenAI.Convert("s", text)
		_ = schema.Anthropic.Measure(text)
	})...)
}
