package price

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/shipped"
)

// The shipped table comes back as it is.
func TestWriteReadsBack(t *testing.T) {
	rows, err := Parse(shipped.Prices)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := Write(&text, rows); err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text.Bytes())
	if err != nil {
		t.Fatalf("%v:\n%s", err, text.String())
	}
	if diff := cmp.Diff(rows, again); diff != "" {
		t.Errorf("rows (-written +read):\n%s", diff)
	}
	if strings.Contains(text.String(), "\r") || !strings.HasPrefix(text.String(), "providers:\n") {
		t.Errorf("not a price file:\n%.200s", text.String())
	}
}

func TestWriteNothing(t *testing.T) {
	var text bytes.Buffer
	if err := Write(&text, nil); err != nil || text.String() != "providers: []\n" {
		t.Errorf("%q, %v", text.String(), err)
	}
	if rows, err := Parse(text.Bytes()); err != nil || len(rows) != 0 {
		t.Errorf("%v, %v", rows, err)
	}
}

// Any row is read as it was written, whatever the names.
func TestWriteProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := func(of string) (r Rates) {
			for _, b := range provider.Buckets() {
				if b == provider.BucketInput || b == provider.BucketOutput || rapid.Bool().Draw(t, of+b.Tariff()) {
					r.Set(b, Rate(rapid.Int64Range(0, 1<<50).Draw(t, "rate")))
				}
			}
			return r
		}
		name := rapid.OneOf(rapid.StringN(1, 20, 60).Filter(func(s string) bool { return strings.ToValidUTF8(s, "") == s }), rapid.SampledFrom([]string{"null", "1.5", "a: b", "x@y", "~", "- a", "a\nb", "true"}))
		row := Row{
			Provider: name.Draw(t, "provider"), Model: name.Draw(t, "model"), Source: name.Draw(t, "source"),
			EffectiveFrom: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Reviewed: time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC),
			ReviewEvery: time.Duration(rapid.IntRange(1, 400).Draw(t, "days")) * 24 * time.Hour, Rates: rates("row "),
		}
		row.Version = row.Provider + "/" + row.Model + "@2026-01-02"
		if rapid.Bool().Draw(t, "tiered") {
			all := row.Rates
			for _, b := range provider.Buckets() {
				all.Set(b, Rate(rapid.Int64Range(0, 1<<50).Draw(t, "rate")))
			}
			row.Tiers = []Tier{{AboveTokens: rapid.Int64Range(1, 1<<40).Draw(t, "above"), Rates: all}}
		}
		if rapid.Bool().Draw(t, "batch") {
			row.Rates.BatchPercent = new(rapid.IntRange(0, 100).Draw(t, "percent"))
		}
		var text bytes.Buffer
		if err := Write(&text, []Row{row}); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text.Bytes())
		if err != nil {
			t.Fatalf("%v:\n%s", err, text.String())
		}
		if diff := cmp.Diff([]Row{row}, again); diff != "" {
			t.Fatalf("row (-written +read):\n%s\n%s", diff, text.String())
		}
	})
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		bucket provider.Bucket
		rate   Rate
		want   string
	}{
		{provider.BucketInput, 0, "0"},
		{provider.BucketInput, 1, "0.000001"},
		{provider.BucketInput, 250_000, "0.25"},
		{provider.BucketOutput, 15_000_000, "15"},
		{provider.BucketImages, 40_000_000_000, "0.04"},
		{provider.BucketSearches, 2_000_000_000_000, "2"},
	} {
		if got := Text(c.bucket, c.rate); got != c.want {
			t.Errorf("Text(%s, %d) = %s, want %s", c.bucket.Tariff(), c.rate, got, c.want)
		}
	}
}

func TestDifferences(t *testing.T) {
	row := func(text string) *Row {
		rows, err := Parse([]byte("providers: [{provider: p, models: [{model: m, effective_from: 2026-01-01, " + text + "}]}]"))
		if err != nil {
			t.Fatal(err)
		}
		return &rows[0]
	}
	before := row(`input_per_mtok_usd: "2", cache_read_per_mtok_usd: "0.2", output_per_mtok_usd: "8"`)
	for _, c := range []struct {
		name, now string
		want      []Difference
	}{
		{"the same", `input_per_mtok_usd: "2", cache_read_per_mtok_usd: "0.20", output_per_mtok_usd: "8", reasoning_per_mtok_usd: "8"`, nil},
		{
			"a cached read that is not listed costs the full price", `input_per_mtok_usd: "2", output_per_mtok_usd: "8"`,
			[]Difference{{Bucket: provider.BucketCacheRead, Before: 200_000, Now: 2_000_000}},
		},
		{
			"a new tier", `input_per_mtok_usd: "2", cache_read_per_mtok_usd: "0.2", output_per_mtok_usd: "8", tiers: [{above_tokens: 1000, input_per_mtok_usd: "2", cache_read_per_mtok_usd: "0.2", output_per_mtok_usd: "12"}]`,
			[]Difference{{Bucket: provider.BucketOutput, AboveTokens: 1000, Before: 8_000_000, Now: 12_000_000}},
		},
		{
			"a piece", `input_per_mtok_usd: "2", cache_read_per_mtok_usd: "0.2", output_per_mtok_usd: "8", per_image_usd: "0.01"`,
			[]Difference{{Bucket: provider.BucketImages, Now: 10_000_000_000}},
		},
	} {
		if diff := cmp.Diff(c.want, Differences(before, row(c.now))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if got := (Difference{Before: 200, Now: 50}).Percent(); got != -75 {
		t.Errorf("%f %%, want -75", got)
	}
	if got := (Difference{Now: 50}).Percent(); got < 1e300 {
		t.Errorf("%f %%, want infinitely much", got)
	}
}
