package price

import (
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// drawUsage returns a random usage whose buckets are at most most.
func drawUsage(t *rapid.T, most int64) (u provider.Usage) {
	v := reflect.ValueOf(&u).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(rapid.Int64Range(0, most).Draw(t, v.Type().Field(i).Name))
	}
	return u
}

// drawRates returns random rates, with some of the buckets left out.
func drawRates(t *rapid.T, most int64) (r Rates) {
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name != "Input" && name != "Output" && rapid.Bool().Draw(t, "has "+name) {
			continue
		}
		rate := reflect.New(v.Field(i).Type().Elem())
		rate.Elem().SetInt(rapid.Int64Range(0, most).Draw(t, name))
		v.Field(i).Set(rate)
	}
	return r
}

// No token is priced twice or left out: the costs of the single buckets add up to the cost of the whole usage.
func TestCostIsTheSumOfItsBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates, usage := drawRates(t, 1e9), drawUsage(t, 1e7)
		var sum Pico
		v := reflect.ValueOf(usage)
		for i := range v.NumField() {
			var one provider.Usage
			reflect.ValueOf(&one).Elem().Field(i).SetInt(v.Field(i).Int())
			sum += rates.cost(&one)
		}
		if got := rates.cost(&usage); got != sum {
			t.Fatalf("cost %d, its buckets %d", got, sum)
		}
	})
}

// Every bucket of a usage has a price if the row has input, output and the pieces.
func TestEveryBucketIsPriced(t *testing.T) {
	one, each := Rate(3), Each(3)
	rates := Rates{Input: &one, Output: &one, Image: &each, Character: &one, AudioSecond: &each, Search: &each}
	v := reflect.ValueOf(provider.Usage{})
	for i := range v.NumField() {
		var u provider.Usage
		reflect.ValueOf(&u).Elem().Field(i).SetInt(2)
		if got := rates.cost(&u); got != 6 {
			t.Errorf("%s costs %d, want 6", v.Type().Field(i).Name, got)
		}
	}
}

// A larger usage never costs less, and an overflow never becomes a small or negative bill.
func TestCostIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates, usage := drawRates(t, math.MaxInt64), drawUsage(t, math.MaxInt64/2)
		more := usage
		v := reflect.ValueOf(&more).Elem()
		field := v.Field(rapid.IntRange(0, v.NumField()-1).Draw(t, "bucket"))
		field.SetInt(field.Int() + rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "more"))
		less, most := rates.cost(&usage), rates.cost(&more)
		if less < 0 || most < less {
			t.Fatalf("%d, and for more %d", less, most)
		}
	})
}

func BenchmarkCost(b *testing.B) {
	one := Rate(1_000_000)
	row, err := NewRow("p", "m", Rates{Input: &one, Output: &one})
	if err != nil {
		b.Fatal(err)
	}
	table, err := NewTable([]Row{row})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		table.Cost("p", "m", now, provider.Usage{Input: 100, Output: 50})
	}
}

// A bucket with a rate of its own costs that, and not what it falls back to.
func TestEveryBucketHasItsTariff(t *testing.T) {
	for _, b := range provider.Buckets() {
		rows, err := Parse([]byte("providers: [{provider: p, models: [{model: m, effective_from: 2026-01-01, " + tariffs(b) + "}]}]"))
		if err != nil {
			t.Fatal(err)
		}
		var u provider.Usage
		*b.Of(&u) = 1
		unit := Pico(1e6)                                                      // A USD for a million tokens is so much for one.
		if b.Side() == provider.SidePieces && b != provider.BucketCharacters { // Those are priced by the million too.
			unit = 1e12
		}
		if got := rows[0].Rates.cost(&u); got != 7*unit {
			t.Errorf("one of %s at 7 USD (%s) costs %d pico-USD, want %d", b.Name(), b.Tariff(), got, 7*unit)
		}
	}
}

// tariffs prices one bucket at 7 USD, and what is required besides at 1.
func tariffs(dear provider.Bucket) string {
	text := dear.Tariff() + ": 7"
	for _, b := range []provider.Bucket{provider.BucketInput, provider.BucketOutput} {
		if b != dear {
			text += ", " + b.Tariff() + ": 1"
		}
	}
	return text
}
