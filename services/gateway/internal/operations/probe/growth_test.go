package probe_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/operations/probe"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestParseGoldenGrowsLinearly(t *testing.T) {
	files := []growth.Input{
		growth.Number("cases", "cases:\n", "  - {name: c#, prompt: b, exact: c}\n", ""),
		growth.Nest("a deep schema", "{items: ", "{}", "}").In("cases: [{name: a, prompt: b, json_schema: ", "}]"),
		growth.Repeat("a long pattern", "cases: [{name: a, prompt: b, regex: '", "(a*)", "'}]"),
	}
	growth.Linear(t, growth.Each(growth.UpTo(64<<10, files), func(text []byte) { _, _ = probe.ParseGolden(text) })...)

	set, err := probe.ParseGolden([]byte("cases: [{name: a, prompt: b, json_schema: {type: object, properties: {a: {type: string}}}}, {name: b, prompt: b, exact: c}]"))
	if err != nil {
		t.Fatal(err)
	}
	growth.Linear(t, growth.EachText(append(growth.JSON, growth.Text...), func(answer string) {
		for i := range set.Cases {
			_ = set.Cases[i].Check(answer)
		}
	})...)
}
