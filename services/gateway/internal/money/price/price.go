// Package price computes what tokens cost. It holds exact rates in integer pico-USD, the versioned table that they come
// from, and the cost of a completion. Package inference computes costs with it; package routing reads the rates of
// configured models.
package price

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/gateway/internal/governance/amount"
)

// Pico is an amount of money in pico-USD (1e-12 USD). A cost is a whole number of them, so that sums are exact.
type Pico int64

// picoPerCent is 0.01 USD in pico-USD.
const picoPerCent = 1e10

// exactPico is the amount from which a float64 in cents can't represent every pico-USD.
const exactPico = 1e15

// Cents returns the amount in cents, rounded like amount.Amount.Cents.
func (p Pico) Cents() float64 {
	if -exactPico < p && p < exactPico {
		return float64(p) / picoPerCent // The nearest float64, whose shortest decimal is exact.
	}
	return amount.Round(float64(p) / picoPerCent)
}

// InCents returns the exact amount as a decimal number of cents.
func (p Pico) InCents() string { return amount.Of(int64(p)).String() }

// Plus returns the sum of two amounts that are not negative, at most the largest amount: a sum that is too large must not
// become a small or negative one.
func (p Pico) Plus(q Pico) Pico {
	if p > math.MaxInt64-q {
		return math.MaxInt64
	}
	return p + q
}

// Rate is the price of one token in pico-USD. One micro-USD per million tokens is one pico-USD a token, so that six
// decimals are exact.
type Rate int64

// CentsPerMillion returns the price of a million tokens in cents, rounded like amount.Amount.Cents.
func (r Rate) CentsPerMillion() float64 {
	return amount.Pico(new(big.Int).Mul(big.NewInt(int64(r)), big.NewInt(1e6))).Cents()
}

// Each is the price of one piece, such as an image, in pico-USD. Twelve decimals of a USD are exact.
type Each int64

const (
	rateDecimals = 6
	eachDecimals = 12
)

// UnmarshalYAML reads a decimal price in USD per million tokens.
func (r *Rate) UnmarshalYAML(node *yaml.Node) error {
	n, err := decimalOf(node, rateDecimals)
	*r = Rate(n)
	return err
}

// UnmarshalYAML reads a decimal price in USD.
func (e *Each) UnmarshalYAML(node *yaml.Node) error {
	n, err := decimalOf(node, eachDecimals)
	*e = Each(n)
	return err
}

func decimalOf(node *yaml.Node, decimals int) (int64, error) {
	n, err := parseDecimal(node.Value, decimals)
	if err != nil {
		return 0, fmt.Errorf("line %d: %w", node.Line, err)
	}
	return n, nil
}

// parseDecimal returns a decimal number multiplied by 10^decimals, without passing through a float.
func parseDecimal(text string, decimals int) (int64, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) > decimals {
		return 0, fmt.Errorf("want a price of at most %d decimals", decimals)
	}
	digits := whole + fraction + strings.Repeat("0", decimals-len(fraction))
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || whole == "" {
		return 0, errors.New("want a price, a decimal number such as 1.25")
	}
	return int64(n), nil
}
