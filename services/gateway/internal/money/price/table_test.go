package price_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

const prices = `
providers:
  - provider: acme
    source: https://acme.example/prices
    reviewed: 2026-01-01
    models:
      - {model: m, effective_from: 2025-01-01, input_per_mtok_usd: "3", output_per_mtok_usd: "15"}
      - {model: m, effective_from: 2026-06-01, input_per_mtok_usd: "2", cache_read_per_mtok_usd: 0.2, cache_write_per_mtok_usd: 2.5, output_per_mtok_usd: 10, reasoning_per_mtok_usd: 12}
`

func TestCost(t *testing.T) {
	usage := provider.Usage{Input: 100, CacheRead: 10, CacheWrite: 20, Output: 30, Reasoning: 5}
	cases := []struct {
		name    string
		model   string
		at      string
		usage   provider.Usage
		want    price.Pico
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
	table := pricetest.Table(t, prices)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			at, err := time.Parse(time.DateOnly, c.at)
			if err != nil {
				t.Fatal(err)
			}
			got := table.Cost("acme", c.model, at, c.usage)
			if want := (price.Cost{Amount: c.want, Version: c.version, Known: c.version != ""}); got != want {
				t.Errorf("cost = %+v, want %+v", got, want)
			}
		})
	}
}

// A request in a batch job costs a share of the list price, rounded up, and the version says so.
func TestCostInBatch(t *testing.T) {
	table := pricetest.Table(t, `
providers:
  - provider: acme
    batch_percent: 50
    models:
      - {model: half, effective_from: 2025-01-01, input_per_mtok_usd: "0.000003", output_per_mtok_usd: 15}
      - {model: third, effective_from: 2025-01-01, batch_percent: 33, input_per_mtok_usd: "0.000001", output_per_mtok_usd: 15}
      - {model: whole, effective_from: 2025-01-01, batch_percent: 100, input_per_mtok_usd: 3, output_per_mtok_usd: 15}
  - provider: other
    models:
      - {model: m, effective_from: 2025-01-01, input_per_mtok_usd: 3, output_per_mtok_usd: 15}
`)
	for _, c := range []struct {
		provider, model string
		input           int64
		want            price.Pico
		version         string
	}{
		{"acme", "half", 1, 2, "acme/half@2025-01-01#batch50"},
		{"acme", "third", 200, 66, "acme/third@2025-01-01#batch33"},
		{"acme", "third", 201, 67, "acme/third@2025-01-01#batch33"},
		{"acme", "half", math.MaxInt64, math.MaxInt64/100*50 + 4, "acme/half@2025-01-01#batch50"},
		{"acme", "whole", 2, 6e6, "acme/whole@2025-01-01"},
		{"other", "m", 2, 6e6, "other/m@2025-01-01"},
		{"other", "x", 2, 0, ""},
	} {
		got := table.CostInBatch(c.provider, c.model, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), provider.Usage{Input: c.input})
		if want := (price.Cost{Amount: c.want, Version: c.version, Known: c.version != ""}); got != want {
			t.Errorf("%d tokens of %s/%s cost %+v, want %+v", c.input, c.provider, c.model, got, want)
		}
	}
}

func TestNewTableRefusesTheSameRowTwice(t *testing.T) {
	rows, err := price.Parse([]byte(strings.ReplaceAll(prices, "2026-06-01", "2025-01-01")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := price.NewTable(rows); err == nil || !strings.Contains(err.Error(), "acme/m@2025-01-01 appears twice") {
		t.Errorf("error %v, want one that names the version", err)
	}
}

const tiered = `
providers:
  - provider: acme
    source: https://acme.example/prices
    reviewed: 2026-01-01
    review_every_days: 30
    models:
      - model: m
        effective_from: 2026-01-01
        input_per_mtok_usd: "1"
        output_per_mtok_usd: "2"
        tiers: [{above_tokens: 200000, input_per_mtok_usd: "2", output_per_mtok_usd: "3"}]
      - {model: m, effective_from: 2026-03-01, effective_to: 2026-04-01, input_per_mtok_usd: "0.5", output_per_mtok_usd: "1"}
      - {model: draw, effective_from: 2026-01-01, per_image_usd: "0.04"}
`

func TestTiersAndEnds(t *testing.T) {
	table := pricetest.Table(t, tiered)
	day := func(text string) time.Time {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	cases := []struct {
		name, model, at string
		usage           provider.Usage
		want            price.Pico
		version         string
	}{
		{"at the bound", "m", "2026-02-01", provider.Usage{Input: 100_000, CacheRead: 100_000, Output: 1}, 200_000e6 + 2e6, "acme/m@2026-01-01"},
		{"above it all is dearer", "m", "2026-02-01", provider.Usage{Input: 100_000, CacheRead: 100_001, Output: 1}, 200_001*2e6 + 3e6, "acme/m@2026-01-01"},
		{"an offer", "m", "2026-03-31", provider.Usage{Input: 2}, 1e6, "acme/m@2026-03-01"},
		{"after the offer", "m", "2026-04-01", provider.Usage{Input: 2}, 2e6, "acme/m@2026-01-01"},
		{"images", "draw", "2026-02-01", provider.Usage{Images: 3, Input: 50}, 3 * 4e10, "acme/draw@2026-01-01"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := table.Cost("acme", c.model, day(c.at), c.usage); got != (price.Cost{Amount: c.want, Version: c.version, Known: true}) {
				t.Errorf("%+v, want %d by %s", got, c.want, c.version)
			}
		})
	}
	rows := table.Rows()
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3", len(rows))
	}
	if first := rows[0]; first.Version != "acme/draw@2026-01-01" || first.ReviewEvery != 30*24*time.Hour {
		t.Errorf("first row %s, reviewed every %v; want acme/draw@2026-01-01, every 30 days", first.Version, first.ReviewEvery)
	}
	if !rows[0].Reviewed.Equal(day("2026-01-01")) {
		t.Errorf("reviewed at %v, want 2026-01-01", rows[0].Reviewed)
	}
}
