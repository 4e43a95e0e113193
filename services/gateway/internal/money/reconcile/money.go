package reconcile

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"switchyard.dev/services/platform/screen"
)

// Money is an exact amount in pico-USD (1e-12 USD). It may be negative, and larger than 64 bits. The zero Money is zero
// USD.
type Money struct{ pico big.Int }

// centDecimals is the number of decimals of a cent that pico-USD hold.
const centDecimals = 10

// Pico returns an amount of n pico-USD.
func Pico(n *big.Int) Money {
	var m Money
	m.pico.Set(n)
	return m
}

// maxDigits bounds the length of an amount's text: 10^12 cents with ten decimals, and a sign.
const maxDigits = 32

// ParseCents reads a decimal number of cents, such as "-12.5", without passing through a float.
func ParseCents(text string) (Money, error) {
	digits, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	if whole == "" || len(text) > maxDigits || strings.HasSuffix(text, ".") || strings.Trim(whole+fraction, "0123456789") != "" {
		return Money{}, fmt.Errorf("%s is not a decimal number of cents such as 1234.56", quote(text))
	}
	if len(fraction) > centDecimals {
		return Money{}, fmt.Errorf("%s has more than %d decimals", quote(text), centDecimals)
	}
	var m Money
	m.pico.SetString(whole+fraction+strings.Repeat("0", centDecimals-len(fraction)), 10)
	if negative {
		m.pico.Neg(&m.pico)
	}
	return m, nil
}

// quote returns an amount quoted as it was written, if it is safe to repeat: the field may hold a raw key instead.
func quote(text string) string {
	if screen.IsName(text) {
		return strconv.Quote(text)
	}
	return "the amount"
}

// FromCents converts a float to the shortest decimal that reads back as the same float64.
func FromCents(cents float64) (Money, error) {
	return ParseCents(strconv.FormatFloat(cents, 'f', -1, 64))
}

// Cents returns the amount in cents, rounded once to the nearest float64.
func (m Money) Cents() float64 {
	cents, _ := new(big.Rat).SetFrac(&m.pico, big.NewInt(1e10)).Float64()
	return cents
}

// Pico returns the amount in pico-USD.
func (m Money) Pico() *big.Int { return new(big.Int).Set(&m.pico) }

// Plus returns the exact sum.
func (m Money) Plus(n Money) (sum Money) {
	sum.pico.Add(&m.pico, &n.pico)
	return sum
}

// Minus returns the exact difference.
func (m Money) Minus(n Money) (difference Money) {
	difference.pico.Sub(&m.pico, &n.pico)
	return difference
}

// IsZero reports whether the amount is zero.
func (m Money) IsZero() bool { return m.pico.Sign() == 0 }

// Within reports whether the absolute amount is at most the absolute tolerance.
func (m Money) Within(tolerance Money) bool { return m.pico.CmpAbs(&tolerance.pico) <= 0 }

// String returns the exact amount in cents.
func (m Money) String() string {
	return strings.TrimSuffix(strings.TrimRight(new(big.Rat).SetFrac(&m.pico, big.NewInt(1e10)).FloatString(centDecimals), "0"), ".")
}
