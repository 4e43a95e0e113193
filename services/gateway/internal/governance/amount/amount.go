// Package amount computes with exact amounts of money: integers in pico-USD of any size, which it reads from and
// formats as decimal numbers of cents. The gateway formats every number of cents with this package, so that none shows
// rounding errors of binary fractions. The package imports no other package of the gateway.
package amount

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"switchyard.dev/services/platform/screen"
)

// Amount is an exact amount in pico-USD (1e-12 USD). It may be negative, and larger than 64 bits. The zero Amount is
// zero USD.
type Amount struct{ pico big.Int }

const (
	// centDecimals is the number of decimals of an amount in cents: 1e-10 cents are one pico-USD.
	centDecimals = 10
	// digits is the number of significant digits of a decimal that any float64 preserves.
	digits = 15
)

// Of returns an amount of n pico-USD.
func Of(n int64) (a Amount) {
	a.pico.SetInt64(n)
	return a
}

// Pico returns an amount of n pico-USD.
func Pico(n *big.Int) (a Amount) {
	a.pico.Set(n)
	return a
}

// maxDigits bounds the length of an amount's text in bytes: 10^12 cents with ten decimals and a sign fit.
const maxDigits = 32

// ParseCents reads a decimal number of cents, such as "-12.5", without passing through a float.
func ParseCents(text string) (Amount, error) {
	number, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(number, ".")
	if whole == "" || len(text) > maxDigits || strings.HasSuffix(text, ".") || strings.Trim(whole+fraction, "0123456789") != "" {
		return Amount{}, fmt.Errorf("%s is not a decimal number of cents such as 1234.56", quote(text))
	}
	if len(fraction) > centDecimals {
		return Amount{}, fmt.Errorf("%s has more than %d decimals", quote(text), centDecimals)
	}
	var a Amount
	a.pico.SetString(whole+fraction+strings.Repeat("0", centDecimals-len(fraction)), 10)
	if negative {
		a.pico.Neg(&a.pico)
	}
	return a, nil
}

// quote returns text in quotes if it is safe to repeat, or else "the amount": the field may hold a raw key instead.
func quote(text string) string {
	if screen.IsName(text) {
		return strconv.Quote(text)
	}
	return "the amount"
}

// FromCents returns the decimal number of cents that a caller wrote as cents: the shortest decimal that parses to the
// same float64. It returns an error for more than 15 significant digits, because the caller may have written another
// number.
func FromCents(cents float64) (Amount, error) {
	text := strconv.FormatFloat(cents, 'f', -1, 64)
	a, err := ParseCents(text)
	if err == nil && Round(cents) != cents {
		return Amount{}, fmt.Errorf("%s has more than %d significant digits", quote(text), digits)
	}
	return a, err
}

// Nearest returns a number of cents that was computed or stored as a float64, rounded to whole pico-USD.
func Nearest(cents float64) Amount {
	text := strconv.FormatFloat(Round(cents), 'f', -1, 64)
	if _, fraction, _ := strings.Cut(text, "."); len(fraction) > centDecimals {
		text = strconv.FormatFloat(cents, 'f', centDecimals, 64)
	}
	a, err := ParseCents(text)
	if err != nil {
		return Amount{} // Too large: no ceiling and no ledger sum gets here.
	}
	return a
}

// Cents returns the amount in cents for a field of the contract: the float64 whose shortest decimal is the amount,
// rounded to 15 significant digits. Up to 1,000 USD no pico-USD is lost.
func (a Amount) Cents() float64 {
	cents, _ := new(big.Rat).SetFrac(&a.pico, big.NewInt(1e10)).Float64()
	return Round(cents)
}

// Round returns the float64 whose shortest decimal is cents rounded to 15 significant digits.
func Round(cents float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(cents, 'g', digits, 64), 64)
	if err != nil {
		return cents // Infinity or not a number.
	}
	return rounded
}

// Pico returns the amount in pico-USD.
func (a Amount) Pico() *big.Int { return new(big.Int).Set(&a.pico) }

// Plus returns the exact sum.
func (a Amount) Plus(b Amount) (sum Amount) {
	sum.pico.Add(&a.pico, &b.pico)
	return sum
}

// Minus returns the exact difference.
func (a Amount) Minus(b Amount) (difference Amount) {
	difference.pico.Sub(&a.pico, &b.pico)
	return difference
}

// Sign returns -1, 0 or 1 for an amount below, at or above zero.
func (a Amount) Sign() int { return a.pico.Sign() }

// Within reports whether the absolute amount is at most the absolute tolerance.
func (a Amount) Within(tolerance Amount) bool { return a.pico.CmpAbs(&tolerance.pico) <= 0 }

// String returns the exact amount in cents.
func (a Amount) String() string {
	return strings.TrimSuffix(strings.TrimRight(new(big.Rat).SetFrac(&a.pico, big.NewInt(1e10)).FloatString(centDecimals), "0"), ".")
}
