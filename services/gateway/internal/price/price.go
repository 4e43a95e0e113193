// Package price knows what tokens cost: exact rates in integer pico-USD, the
// versioned table they come from, and the cost of a completion. Package
// inference asks it; package routing reads the rates of configured models.
package price

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/gateway/internal/provider"
)

// Pico is money in pico-USD (1e-12 USD). A cost is a whole number of them, so
// that sums are exact.
type Pico int64

// picoPerCent is 0.01 USD.
const picoPerCent = 1e10

// Cents is the amount in cents, rounded once to the nearest double.
func (p Pico) Cents() float64 { return float64(p) / picoPerCent }

// Rate is the price of one unit in pico-USD. A price per million tokens of one
// micro-USD is one pico-USD a token, so six decimals are exact.
type Rate int64

const rateDecimals = 6

// UnmarshalYAML reads the decimal text of a price in USD per million tokens.
func (r *Rate) UnmarshalYAML(node *yaml.Node) error {
	var err error
	*r, err = parseRate(node.Value)
	return err
}

// parseRate scales a decimal number by 10^6 without passing through a float.
func parseRate(text string) (Rate, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) > rateDecimals {
		return 0, fmt.Errorf("price %q: at most %d decimals", text, rateDecimals)
	}
	digits := whole + fraction + strings.Repeat("0", rateDecimals-len(fraction))
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || whole == "" {
		return 0, fmt.Errorf("price %q: want a decimal number such as 1.25", text)
	}
	return Rate(n), nil
}

// Rates are the prices of one model, per bucket of tokens. A bucket without a
// rate of its own costs what its wider one does: cached input as Input,
// reasoning as Output.
type Rates struct {
	Input      *Rate `yaml:"input_per_mtok_usd"`
	CacheRead  *Rate `yaml:"cache_read_per_mtok_usd"`
	CacheWrite *Rate `yaml:"cache_write_per_mtok_usd"`
	Output     *Rate `yaml:"output_per_mtok_usd"`
	Reasoning  *Rate `yaml:"reasoning_per_mtok_usd"`
}

// IsZero tells whether no price was given at all.
func (r Rates) IsZero() bool { return r == Rates{} }

// check wants the two rates that the others fall back to.
func (r Rates) check() error {
	if r.Input == nil || r.Output == nil {
		return errors.New("input_per_mtok_usd and output_per_mtok_usd: both are required")
	}
	return nil
}

// cost sums the buckets. What would not fit is the largest amount there is:
// no vendor's report may turn into a small or negative bill.
func (r Rates) cost(u provider.Usage) Pico {
	var sum uint64
	for _, bucket := range []struct {
		tokens     int64
		rate, wide *Rate
	}{
		{u.Input, r.Input, nil},
		{u.CacheRead, r.CacheRead, r.Input},
		{u.CacheWrite, r.CacheWrite, r.Input},
		{u.Output, r.Output, nil},
		{u.Reasoning, r.Reasoning, r.Output},
	} {
		rate := bucket.rate
		if rate == nil {
			rate = bucket.wide
		}
		high, low := bits.Mul64(uint64(max(bucket.tokens, 0)), uint64(*rate))
		total, carry := bits.Add64(sum, low, 0)
		if high != 0 || carry != 0 || total > math.MaxInt64 {
			return math.MaxInt64
		}
		sum = total
	}
	return Pico(sum)
}
