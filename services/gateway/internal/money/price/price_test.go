package price

import (
	"testing"
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
		"a share above the whole":      "providers: [{provider: a, models: [{model: m, effective_from: 2025-02-01, batch_percent: 101, input_per_mtok_usd: 1, output_per_mtok_usd: 1}]}]",
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
