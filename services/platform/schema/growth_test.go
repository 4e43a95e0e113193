package schema_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/schema"
	"switchyard.dev/services/platform/testkit/growth"
)

// most is the size of the largest payload.
const most = 512 << 10

// What customers register, of any form.
func TestCompileGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Number("properties", `{"properties":{"":{}`, `,"p#":{"type":"string"}`, "}}"),
		growth.Number("references to one", `{"$defs":{"a":{}},"properties":{"":{}`, `,"p#":{"$ref":"#/$defs/a"}`, "}}"),
		growth.Number("a chain of references", `{"$defs":{"0":{}`, `,"#":{"$ref":"#/$defs/0"}`, "}}"),
		growth.Number("expressions", `{"patternProperties":{"":{}`, `,"^[a-z]{5}#":{}`, "}}"),
		growth.Repeat("all of", `{"allOf":[{}`, `,{"minimum":1}`, "]}"),
		growth.Number("values", `{"enum":[0`, ",#", "]}"),
		growth.Nest("nested", `{"items":`, "{}", "}"),
		growth.Nest("nested lists", `{"const":[`, "", "]}"),
	}
	inputs = append(append(inputs, growth.JSON...), growth.Around(`{"properties":`, growth.JSON, "}")...)
	growth.Linear(t, growth.Each(growth.UpTo(48<<10, inputs), func(text []byte) { _, _ = schema.Compile(text) })...)
}

// What customers emit, of any form, against a schema with all kinds of keywords.
func TestCheckGrowsLinearly(t *testing.T) {
	s := compile(t, `{"$ref":"#/$defs/any","$defs":{"any":{"anyOf":[
		{"type":"object","additionalProperties":{"$ref":"#/$defs/any"},"propertyNames":{"pattern":"^[a-z]*"},"unevaluatedProperties":false},
		{"type":"array","items":{"$ref":"#/$defs/any"},"uniqueItems":true,"contains":{"type":"null"},"minContains":0},
		{"type":"string","pattern":"^(a|b)*$","maxLength":100},{"type":"number","multipleOf":0.5,"minimum":-1e9},{"enum":[true,false,null]}]}}}`)
	growth.Linear(t, growth.Each(growth.UpTo(64<<10, growth.Around(`{"a":`, growth.ValidJSON, "}")), func(text []byte) {
		if jsoncheck.ObjectRule(text) == "" {
			_ = s.Check(text)
		}
	})...)
}

// Schemas that ask for a power of the payload's size, or of their own.
var hostile = map[string]struct{ schema, payload string }{
	"twice at each level of references": {doubling(40), `{}`},
	"twice at each level of the value": {
		`{"$defs":{"x":{"items":{"allOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"}]}}},"properties":{"a":{"$ref":"#/$defs/x"}}}`,
		`{"a":` + strings.Repeat("[", 150) + strings.Repeat("]", 150) + `}`,
	},
	"twice within not": {
		`{"$defs":{"x":{"not":{"anyOf":[{"items":{"$ref":"#/$defs/x"}},{"contains":{"$ref":"#/$defs/x"}}]}}},"properties":{"a":{"$ref":"#/$defs/x"}}}`,
		`{"a":` + strings.Repeat("[", 150) + "1" + strings.Repeat("]", 150) + `}`,
	},
	"each expression of many for each of many names": {
		`{"patternProperties":{` + counted(1000, `"^(x|y)*[a-c]+%d$":{}`) + `}}`, `{` + counted(20000, `"xxxxxxxxxxxxxx%d":1`) + `}`,
	},
	"a large expression on a large text": {`{"properties":{"a":{"pattern":"(x?){60}(x+x+){60}$"}}}`, `{"a":"` + strings.Repeat("x", most-20) + `y"}`},
	"canonical texts at each level": {
		`{"$defs":{"x":{"uniqueItems":true,"enum":[1],"items":{"$ref":"#/$defs/x"}},"y":{"uniqueItems":true,"items":{"$ref":"#/$defs/y"}}},"properties":{"a":{"$ref":"#/$defs/y"}}}`,
		`{"a":` + strings.Repeat("[", 190) + strings.Repeat("1234567,", 60000) + "1" + strings.Repeat("]", 190) + `}`,
	},
	"many alternatives for many items": {
		`{"properties":{"a":{"items":{"oneOf":[` + counted(1000, `{"const":"x%d"}`) + `]}}}}`, `{"a":[` + counted(80000, `%d`) + `]}`,
	},
	"unevaluated of unevaluated": {
		`{` + strings.Repeat(`"allOf":[{"unevaluatedProperties":true},{`, 15) + strings.Repeat(`}],"unevaluatedProperties":true`, 15) + `}`,
		`{` + counted(30000, `"k%d":1`) + `}`,
	},
	"a pattern that keeps all of its program busy": {
		`{"properties":{"s":{"type":"string","pattern":"(?:x?[ab]){330}y$"}}}`, `{"s":"` + strings.Repeat("ab", 32_000) + `"}`,
	},
	"an alternation that ends nowhere": {
		`{"properties":{"s":{"pattern":"(a|aa|ab|aba|b|ba|bab)*c"}}}`, `{"s":"` + strings.Repeat("ab", 32_000) + `"}`,
	},
	"a pattern for each of many names": {
		`{"propertyNames":{"pattern":"(?:x?[ab]){300}y$"}}`, `{` + counted(2000, `"`+strings.Repeat("ab", 100)+`%d":1`) + `}`,
	},
	"large values of enum": {
		`{"properties":{"a":{"items":{"enum":["` + strings.Repeat("x", 60_000) + `"]}}}}`,
		`{"a":[` + strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("x", 20_000)+`",`, 20), ",") + `]}`,
	},
	"dependent schemas of many names": {
		`{"properties":{"a":{"items":{"dependentSchemas":{` + counted(900, `"k%d":{"required":["z"]}`) + `}}}}}`,
		`{"a":[` + counted(2000, `{"k%d":1}`) + `]}`,
	},
	"exponents":      {`{"properties":{"a":{"items":{"multipleOf":1e-300,"maximum":1e300}}}}`, `{"a":[` + counted(50000, `%de300`) + `]}`},
	"more exponents": {`{"properties":{"a":{"items":{"multipleOf":3,"type":"integer"},"uniqueItems":true}}}`, `{"a":[` + counted(30000, `%de999999999`) + `]}`},
	"long digits":    {`{"properties":{"a":{"multipleOf":3}}}`, `{"a":` + strings.Repeat("7", most-20) + `}`},
	"dependent names of many items": {
		`{"properties":{"a":{"items":{"dependentRequired":{` + counted(1990, `"k%d":["z"]`) + `}}}}}`,
		`{"a":[` + strings.TrimSuffix(strings.Repeat("{},", 13_000), ",") + `]}`,
	},
	"a long name that is required of many items": {
		`{"properties":{"a":{"items":{"not":{"required":["` + strings.Repeat("x", 60_000) + `"]}}}}}`,
		`{"a":[` + strings.TrimSuffix(strings.Repeat("{},", 13_000), ",") + `]}`,
	},
	"the same digits for many types": {
		`{"properties":{"a":{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"integer"},`, 1900), ",") + `]}}}`,
		`{"a":` + strings.Repeat("7", most-20) + `}`,
	},
	"the same names for many schemas": {
		`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"properties":{"z":true}},`, 980), ",") + `]}`, `{` + counted(50_000, `"%d":1`) + `}`,
	},
	"a long name for many schemas": {
		`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"properties":{"z":true}},`, 980), ",") + `]}`, `{"` + strings.Repeat("x", most-20) + `":1}`,
	},
	"long names that are evaluated and merged": {
		`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"additionalProperties":{}},`, 980), ",") + `],"unevaluatedProperties":false}`,
		`{"` + strings.Repeat("x", most-20) + `":1}`,
	},
	"numbers of many digits": {
		`{"properties":{"a":{"items":{"multipleOf":1.` + strings.Repeat("7", 190) + `e-200,"minimum":1e-400}}}}`,
		`{"a":[` + counted(1000, `%d.`+strings.Repeat("3", 190)+"e-200") + `]}`,
	},
	"a bound that is written for many alternatives": {
		`{"properties":{"a":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"maximum":1.7777777777777777e-380},`, 1500), ",") + `]}}}`, `{"a":1}`,
	},
	"a text that nearly begins a match everywhere": {
		`{"properties":{"a":{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"pattern":"`+strings.Repeat("a", 500)+`b"},`, 100), ",") + `]}}}`,
		`{"a":"` + strings.Repeat("a", most-20) + `"}`,
	},
	"letters without case": {
		`{"properties":{"a":{"pattern":"(?:(?i:é)?(?i:ß)?\\p{L}?){200}y"}}}`, `{"a":"` + strings.Repeat("ω", 20_000) + `"}`,
	},
	"after its end": {
		`{"$defs":{"x":{"allOf":[{"not":{"$ref":"#/$defs/y"}}],"unevaluatedProperties":false},"y":` +
			strings.Repeat(`{"not":{"unevaluatedProperties":true,"allOf":[`, 9) + `{"properties":{}}` + strings.Repeat(`]}}`, 9) + `},"$ref":"#/$defs/x"}`,
		`{` + counted(50_000, `"%d":1`) + `}`,
	},
	"violations at a long pointer": {
		`{"additionalProperties":{"items":false}}`,
		`{"` + strings.Repeat("~", most-100) + `":[1,2,3,4,5,6,7,8,9,10,11,12]}`,
	},
	"a long chain": {chain(1500), `{"a":[` + counted(60000, `%d`) + `]}`},
}

// doubling returns a schema whose definitions apply the next one twice.
func doubling(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]},`, i, i+1, i+1)
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/0","$defs":{%s"%d":{}}}`, text.String(), n)
}

func chain(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `"%d":{"$ref":"#/$defs/%d"},`, i, i+1)
	}
	return fmt.Sprintf(`{"properties":{"a":{"items":{"$ref":"#/$defs/0"}}},"$defs":{%s"%d":{}}}`, text.String(), n)
}

func counted(n int, format string) string {
	texts := make([]string, n)
	for i := range n {
		texts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(texts, ",")
}

// mostTime is how much processor time a hostile check of a payload may take, with what reading the payload takes: ten
// times its cost, since a test's machine is busy, and a second for the race detector. Without a bound of the cost each of
// the checks takes seconds or more.
func mostTime(size int) time.Duration {
	return 10*max(2*time.Millisecond, time.Duration(size)*40*time.Nanosecond) + time.Second
}

func TestHostileSchemasAreBounded(t *testing.T) {
	for name, tt := range hostile {
		t.Run(name, func(t *testing.T) {
			s, err := schema.Compile([]byte(tt.schema))
			if err != nil {
				t.Fatalf("the schema is refused: %v", err)
			}
			before := growth.ProcessorTime()
			found := s.Check([]byte(tt.payload))
			took := growth.ProcessorTime() - before
			t.Logf("%d bytes of schema, %d of payload: %v, %v", len(tt.schema), len(tt.payload), took, found)
			if most := mostTime(len(tt.payload)); took > most {
				t.Errorf("the check took %v, more than %v", took, most)
			}
		})
	}
	t.Run("a check ends", func(t *testing.T) {
		found := compile(t, hostile["twice at each level of references"].schema).Check([]byte(`{}`))
		if len(found) != 1 || !strings.HasPrefix(found[0].Rule, "takes too long") {
			t.Errorf("violations: %v", found)
		}
	})
}
