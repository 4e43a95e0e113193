package anthropic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit/growth"
)

// wide returns the schema of an object with optional properties and with nullable ones that are required.
func wide(optional, nullable int) string {
	var properties, required []string
	for i := range optional {
		properties = append(properties, fmt.Sprintf(`"o%d":{"type":"string"}`, i))
	}
	for i := range nullable {
		properties = append(properties, fmt.Sprintf(`"n%d":{"type":["string","null"]}`, i))
		required = append(required, fmt.Sprintf(`"n%d"`, i))
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]}`
}

// The functions that exceed the vendor's limits are not strict; the schema of the answer takes its part first.
func TestLoosen(t *testing.T) {
	strict := func(schemas ...string) (tools []provider.Tool) {
		for _, s := range schemas {
			tools = append(tools, provider.Tool{Name: "f", Strict: true, Parameters: []byte(s)})
		}
		return tools
	}
	loose := provider.Tool{Name: "g", Parameters: []byte(wide(30, 30))}
	for name, c := range map[string]struct {
		format  string
		tools   []provider.Tool
		want    []int
		refused bool
	}{
		"nothing":                   {},
		"20 functions":              {tools: strict(slices.Repeat([]string{wide(1, 0)}, 20)...)},
		"22 functions":              {tools: strict(slices.Repeat([]string{"{}"}, 22)...), want: []int{20, 21}},
		"functions without schemas": {tools: strict(slices.Repeat([]string{""}, 21)...), want: []int{20}},
		"optional properties":       {tools: strict(wide(24, 0), wide(1, 0), wide(0, 16)), want: []int{1}},
		"unions":                    {tools: strict(wide(0, 10), wide(0, 7), wide(0, 6)), want: []int{1}},
		"one large function":        {tools: strict(wide(25, 0), wide(0, 1)), want: []int{0}},
		"a loose function":          {tools: append([]provider.Tool{loose}, strict(wide(24, 16))...)},
		"a schema not taken":        {tools: strict(`{"not":{}}`)},
		"an answer":                 {format: wide(24, 16)},
		"an answer and a function":  {format: wide(20, 0), tools: strict(wide(5, 0), wide(4, 0)), want: []int{0}},
		"an answer too optional":    {format: wide(25, 0), refused: true},
		"an answer of unions":       {format: wide(0, 17), refused: true},
	} {
		chat := &provider.Chat{Tools: c.tools}
		if c.format != "" {
			chat.ResponseFormat = []byte(`{"type":"json_schema","json_schema":{"strict":true,"schema":` + c.format + `}}`)
		}
		got, err := Loosen(chat)
		e, refused := errors.AsType[*provider.Error](err)
		if refused != c.refused || refused && !e.Unsupported || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	loosely := &provider.Chat{ResponseFormat: []byte(`{"type":"json_schema","json_schema":{"schema":` + wide(25, 17) + `}}`)}
	if _, err := Loosen(loosely); err != nil {
		t.Errorf("a loose schema: %v", err)
	}
}

func TestLoosenGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(append([]growth.Input{
		growth.Number("optional properties", `{"type":"object","properties":{"a":{}`, `,"p#":{"type":["string","null"]}`, `}}`),
		growth.Nest("items", `{"items":`, "{}", "}"),
	}, growth.ValidJSON...), func(text []byte) {
		_, _ = Loosen(&provider.Chat{Tools: []provider.Tool{{Strict: true, Parameters: text}}})
	})...)
}
