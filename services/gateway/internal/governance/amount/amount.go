// Package amount computes with exact amounts of money: whole numbers of pico-USD of any size, which are read from and
// shown as decimal numbers of cents. Every number of cents that the gateway shows is made here, so that none has the
// noise of binary fractions. It imports no other package of the gateway.
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
	// centDecimals is the number of decimals of a cent that pico-USD hold.
	centDecimals = 10
	// digits is how many significant digits a float64 holds of any decimal number.
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

// maxDigits bounds the length of an amount's text: 10^12 cents with ten decimals, and a sign.
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

// quote returns an amount quoted as it was written, if it is safe to repeat: the field may hold a raw key instead.
func quote(text string) string {
	if screen.IsName(text) {
		return strconv.Quote(text)
	}
	return "the amount"
}

// FromCents returns the decimal number of cents that was written for a float64: the shortest that reads back as it. It
// refuses one with more digits than a float64 holds, which may have been another number.
func FromCents(cents float64) (Amount, error) {
	text := strconv.FormatFloat(cents, 'f', -1, 64)
	a, err := ParseCents(text)
	if err == nil && Round(cents) != cents {
		return Amount{}, fmt.Errorf("%s has more than %d significant digits", quote(text), digits)
	}
	return a, err
}

// Nearest returns the amount of a number of cents that was computed or stored as a float64, in whole pico-USD.
func Nearest(cents float64) Amount {
	text := strconv.FormatFloat(Round(cents), 'f', -1, 64)
	if _, fraction, _ := strings.Cut(text, "."); len(fraction) > centDecimals {
		text = strconv.FormatFloat(cents, 'f', centDecimals, 64)
	}
	a, err := ParseCents(text)
	if err != nil {
		return Amount{} // No ceiling and no sum of the ledger is as large.
	}
	return a
}

// Cents returns the amount in cents for a field of the contract: exactly the float64 whose shortest decimal is the
// amount, rounded to 15 significant digits. Up to 1,000 USD that is every pico-USD.
func (a Amount) Cents() float64 {
	cents, _ := new(big.Rat).SetFrac(&a.pico, big.NewInt(1e10)).Float64()
	return Round(cents)
}

// Round returns the float64 whose shortest decimal is the one next to cents with 15 significant digits.
func Round(cents float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(cents, 'g', digits, 64), 64)
	if err != nil {
		return cents // It is no finite number.
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
