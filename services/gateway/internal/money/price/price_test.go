package price

import (
	"math"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func TestParseDecimal(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "3": 3_000_000, "1.25": 1_250_000, "0.000001": 1, "15.00": 15_000_000, "0.5": 500_000,
	} {
		if got, err := parseDecimal(text, rateDecimals); err != nil || got != want {
			t.Errorf("%q = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".5", "-1", "1e3", "0.0000001", "1.2.3", "1,5", "99999999999999999999", "+1"} {
		if got, err := parseDecimal(text, rateDecimals); err == nil {
			t.Errorf("%q = %d, want an error", text, got)
		}
	}
}

const prices = `
providers:
  - provider: acme
    source: https://acme.example/prices
    reviewed: 2026-01-01
    models:
      - {model: m, effective_from: 2025-01-01, input_per_mtok_usd: "3", output_per_mtok_usd: "15"}
      - {model: m, effective_from: 2026-06-01, input_per_mtok_usd: "2", cache_read_per_mtok_usd: 0.2, cache_write_per_mtok_usd: 2.5, output_per_mtok_usd: 10, reasoning_per_mtok_usd: 12}
`

func table(t *testing.T, text string) *Table {
	t.Helper()
	rows, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	table, err := NewTable(rows)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestCost(t *testing.T) {
	usage := provider.Usage{Input: 100, CacheRead: 10, CacheWrite: 20, Output: 30, Reasoning: 5}
	cases := []struct {
		name    string
		model   string
		at      string
		usage   provider.Usage
		want    Pico
		version string
	}{
		{"buckets fall back to the wider rate", "m", "2026-05-31", usage, 130*3e6 + 35*15e6, "acme/m@2025-01-01"},
		{"each bucket by its own rate", "m", "2026-06-01", usage, 100*2e6 + 10*2e5 + 20*25e5 + 30*10e6 + 5*12e6, "acme/m@2026-06-01"},
		{"before the first row", "m", "2024-12-31", usage, 0, ""},
		{"an unknown model", "x", "2026-06-01", usage, 0, ""},
		{"nothing used", "m", "2026-06-01", provider.Usage{}, 0, "acme/m@2026-06-01"},
		{"a report beyond all bounds", "m", "2026-06-01", provider.Usage{Input: math.MaxInt64}, math.MaxInt64, "acme/m@2026-06-01"},
		{"a negative report", "m", "2026-06-01", provider.Usage{Input: -5, Output: 1}, 10e6, "acme/m@2026-06-01"},
	}
	table := table(t, prices)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			at, err := time.Parse(time.DateOnly, c.at)
			if err != nil {
				t.Fatal(err)
			}
			got := table.Cost("acme", c.model, at, c.usage)
			if want := (Cost{c.want, c.version, c.version != ""}); got != want {
				t.Errorf("cost = %+v, want %+v", got, want)
			}
		})
	}
}

func TestCents(t *testing.T) {
	if got := Pico(12_345_000_000).Cents(); got != 1.2345 {
		t.Errorf("cents = %v, want 1.2345", got)
	}
}

func TestParseRefuses(t *testing.T) {
	cases := map[string]string{
		"an unknown field":             "providers: [{provider: a, colour: red}]",
		"no provider":                  "providers: [{models: []}]",
		"no date":                      "providers: [{provider: a, models: [{model: m, input_per_mtok_usd: 1, output_per_mtok_usd: 1}]}]",
		"no output rate":               "providers: [{provider: a, models: [{model: m, effective_from: 2025-01-01, input_per_mtok_usd: 1}]}]",
		"no model":                     "providers: [{provider: a, models: [{effective_from: 2025-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 1}]}]",
		"a bad rate":                   "providers: [{provider: a, models: [{model: m, effective_from: 2025-01-01, input_per_mtok_usd: one, output_per_mtok_usd: 1}]}]",
		"not YAML":                     "\t",
		"an end before its begin":      "providers: [{provider: a, models: [{model: m, effective_from: 2025-02-01, effective_to: 2025-02-01, input_per_mtok_usd: 1, output_per_mtok_usd: 1}]}]",
		"an end that is no day":        "providers: [{provider: a, models: [{model: m, effective_from: 2025-02-01, effective_to: never, input_per_mtok_usd: 1, output_per_mtok_usd: 1}]}]",
		"a review that is no day":      "providers: [{provider: a, reviewed: last year}]",
		"a negative cadence":           "providers: [{provider: a, review_every_days: -1}]",
		"an image and half a price":    "providers: [{provider: a, models: [{model: m, effective_from: 2025-02-01, per_image_usd: 1, input_per_mtok_usd: 1}]}]",
		"a tier without a bound":       "providers: [{provider: a, models: [{model: m, effective_from: 2025-02-01, input_per_mtok_usd: 1, output_per_mtok_usd: 1, tiers: [{input_per_mtok_usd: 1, output_per_mtok_usd: 1}]}]}]",
		"tiers out of order":           "providers: [{provider: a, models: [{model: m, effective_from: 2025-02-01, input_per_mtok_usd: 1, output_per_mtok_usd: 1, tiers: [{above_tokens: 5, input_per_mtok_usd: 1, output_per_mtok_usd: 1}, {above_tokens: 5, input_per_mtok_usd: 1, output_per_mtok_usd: 1}]}]}]",
		"a tier that forgets a bucket": "providers: [{provider: a, models: [{model: m, effective_from: 2025-02-01, input_per_mtok_usd: 1, cache_read_per_mtok_usd: 1, output_per_mtok_usd: 1, tiers: [{above_tokens: 5, input_per_mtok_usd: 1, output_per_mtok_usd: 1}]}]}]",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			if rows, err := Parse([]byte(text)); err == nil {
				t.Errorf("%v, want an error", rows)
			}
		})
	}
	rows, err := Parse([]byte(strings.ReplaceAll(prices, "2026-06-01", "2025-01-01")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewTable(rows); err == nil || !strings.Contains(err.Error(), "acme/m@2025-01-01 appears twice") {
		t.Errorf("error %v, want one that names the version", err)
	}
}

func TestNewRowVersionFollowsRates(t *testing.T) {
	one, two := Rate(1), Rate(2)
	a, errA := NewRow("p", "m", Rates{Input: &one, Output: &one})
	b, errB := NewRow("p", "m", Rates{Input: &one, Output: &two})
	if errA != nil || errB != nil || a.Version == b.Version {
		t.Errorf("%q and %q, %v, %v, want two versions", a.Version, b.Version, errA, errB)
	}
	if _, err := NewRow("p", "m", Rates{Input: &one}); err == nil {
		t.Error("half a price passes")
	}
}

// A text that is read as a rate prints back to the same amount.
func FuzzParseDecimal(f *testing.F) {
	f.Add("1.25")
	f.Add("0.000001")
	f.Fuzz(func(t *testing.T, text string) {
		rate, err := parseDecimal(text, rateDecimals)
		if err != nil {
			return
		}
		if rate < 0 {
			t.Errorf("%q = %d, want no negative rate", text, rate)
		}
	})
}
