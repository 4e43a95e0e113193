package strictyaml

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestDecodeGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Repeat("wrong values", "entries:\n", "  - {count: x}\n", ""),
		growth.Repeat("a long value", "entries: [{count: ", "`", "}]"),
		growth.Number("unknown fields", "", "field#: x\n", ""),
		growth.Number("many mappings", "entries:\n", "  - {count#: 1, a: 1, b: 1, c: 1}\n", ""),
		growth.Repeat("documents", "entries: []\n", "---\nentries: []\n", ""),
		growth.Repeat("a long name", "", "n", ": x"),
		growth.Nest("nested lists", "[", "", "]").In("entries: ", ""),
	}
	growth.Linear(t, growth.Each(growth.UpTo(512<<10, inputs), func(text []byte) {
		_ = Decode(text, &struct {
			Entries []struct {
				Count int `yaml:"count"`
			} `yaml:"entries"`
		}{})
	})...)
}
