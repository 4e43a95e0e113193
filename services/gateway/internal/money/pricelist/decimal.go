package pricelist

import (
	"errors"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// number matches the numbers that are read: enough digits and exponent for any price, few enough to compute with exactly.
var number = regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$`)

var picoPerUSD = big.NewRat(1e12, 1)

// decimal returns a number of USD in pico-USD, rounded to the nearest, halves up. It never passes through a float, so that
// 3.5999999999999996e-06 is what is meant, 3.6e-06.
func decimal(text string) (price.Rate, error) {
	if !number.MatchString(text) {
		return 0, errors.New("want a number that is not negative")
	}
	amount, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, errors.New("want a number that is not negative")
	}
	amount.Mul(amount, picoPerUSD).Add(amount, big.NewRat(1, 2))
	whole := new(big.Int).Quo(amount.Num(), amount.Denom())
	if !whole.IsInt64() {
		return 0, errors.New("is too large for a price")
	}
	return price.Rate(whole.Int64()), nil
}

// The largest prices that can be right, in pico-USD.
const (
	// maxToken is 0.001 USD, which is 1,000 USD for a million tokens or characters.
	maxToken price.Rate = 1e9
	// maxPiece is 10 USD.
	maxPiece price.Rate = 1e13
)

// largest returns the largest price of a bucket that can be right.
func largest(b provider.Bucket) price.Rate {
	if b.Side() == provider.SidePieces && b != provider.BucketCharacters {
		return maxPiece
	}
	return maxToken
}

// each returns pico-USD as USD.
func each(rate price.Rate) string { return price.Text(provider.BucketImages, rate) }

// plainNumber returns a number for a report.
func plainNumber(raw string) string {
	if amount, err := strconv.ParseFloat(raw, 64); err == nil {
		return strings.TrimSuffix(strconv.FormatFloat(amount, 'f', -1, 64), ".")
	}
	return "the price"
}
