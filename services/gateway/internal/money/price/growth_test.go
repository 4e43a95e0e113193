package price

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestParseDecimalGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(append(growth.Around("1.", growth.Text, ""), growth.Text...), func(text string) {
		_, _ = parseDecimal(text, rateDecimals)
	})...)
}

func TestParseGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Number("models", "providers:\n  - provider: p\n    models:\n", "      - {model: m#, effective_from: 2020-01-01, input_per_mtok_usd: 1}\n", ""),
		growth.Number("providers", "providers:\n", "  - {provider: p#, models: [{model: m, effective_from: 2020-01-01, input_per_mtok_usd: 1}]}\n", ""),
	}
	growth.Linear(t, growth.Each(growth.UpTo(64<<10, inputs), func(text []byte) {
		if rows, err := Parse(text); err == nil {
			_, _ = NewTable(rows)
		}
	})...)
}
