package inference

import (
	"fmt"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// pricesOf returns prices of 1 USD for all but one bucket, which costs 7.
func pricesOf(t *testing.T, dear provider.Bucket) *price.Table {
	t.Helper()
	rates := `input_per_mtok_usd: 1, output_per_mtok_usd: 1, per_image_usd: 1, per_mchar_usd: 1, per_audio_second_usd: 1, per_search_usd: 1`
	if _, specific := dear.Fallback(); specific {
		rates += fmt.Sprintf(", %s: 7", dear.Tariff())
	}
	table := pricetest.Table(t, "providers: [{provider: a, models: [{model: m, effective_from: 2026-01-01, "+rates+"}]}]")
	return table
}

// Whichever bucket a vendor counts tokens in, the worst case covers them, and its report can't exceed the bound.
func TestWorstCaseAndClampKnowEveryBucket(t *testing.T) {
	most := bound{Usage: provider.Usage{Input: 1000, Output: 500, Images: 2, Characters: 2, AudioSeconds: 2, Searches: 2}}
	limits := map[provider.Side]int64{provider.SidePrompt: 1000, provider.SideCompletion: 500, provider.SidePieces: 2}
	c := candidate{}
	c.Target = provider.Target{Provider: "a", Model: "m"}
	for _, b := range provider.Buckets() {
		prices := pricesOf(t, b)
		var u provider.Usage
		*b.Of(&u) = limits[b.Side()]
		worst, known := dearest(prices.Cost, c, most.Usage)
		if cost := prices.Cost("a", "m", time.Now(), u); !known || cost.Amount > worst {
			t.Errorf("%s: the worst case is %d, and %d of it cost %d", b.Name(), worst, limits[b.Side()], cost.Amount)
		}
		*b.Of(&u)++
		if beyond := most.clamp(&u, arrived{}); len(beyond) != 1 || *b.Of(&u) != limits[b.Side()] {
			t.Errorf("%s: %d of at most %d are left, and beyond is %v", b.Name(), *b.Of(&u), limits[b.Side()], beyond)
		}
		*b.Of(&u) = -1
		if most.clamp(&u, arrived{}); *b.Of(&u) != 0 {
			t.Errorf("%s: a negative count became %d, want 0", b.Name(), *b.Of(&u))
		}
	}
}
