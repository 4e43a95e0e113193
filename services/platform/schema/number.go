package schema

import (
	"math/big"
	"strconv"
	"strings"
)

// maxDigits is how many digits a number may have to be compared with others, written without an exponent.
const maxDigits = 400

// number is a number of JSON: digits, which neither begin nor end with 0, times ten to the power of exponent. Zero has no
// digits.
type number struct {
	negative bool
	digits   string
	exponent int64
}

// parseNumber returns the number of a JSON text, in linear time. It reports false if the exponent is too large to
// calculate with.
func parseNumber(text string) (n number, ok bool) {
	text, n.negative = strings.TrimPrefix(text, "-"), strings.HasPrefix(text, "-")
	mantissa, exponent := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], strings.TrimPrefix(text[i+1:], "+")
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	n.digits = strings.TrimLeft(whole+fraction, "0")
	if n.digits == "" {
		return number{}, true // Zero, whatever the exponent.
	}
	trimmed := strings.TrimRight(n.digits, "0")
	n.exponent = int64(len(n.digits) - len(trimmed) - len(fraction))
	n.digits = trimmed
	if exponent == "" {
		return n, true
	}
	e, err := strconv.ParseInt(exponent, 10, 32)
	n.exponent += e
	return n, err == nil
}

// integer reports whether the number has no fraction.
func (n number) integer() bool { return n.exponent >= 0 }

// comparable reports whether rat takes little time.
func (n number) comparable() bool {
	return len(n.digits) <= maxDigits && n.exponent <= maxDigits && n.exponent >= -maxDigits
}

// bits returns about how many bits the number's digits and its power of ten have.
func (n number) bits() int {
	return (len(n.digits) + int(max(n.exponent, -n.exponent))) * 10 / 3
}

// rat returns the number for exact arithmetic; the number is comparable.
func (n number) rat() *big.Rat {
	r, ok := new(big.Rat).SetString(n.text())
	if !ok {
		return new(big.Rat)
	}
	return r
}

// text returns one and the same text for equal numbers.
func (n number) text() string {
	if n.digits == "" {
		return "0"
	}
	sign := ""
	if n.negative {
		sign = "-"
	}
	return sign + n.digits + "e" + strconv.FormatInt(n.exponent, 10)
}

// written is a bound of a schema, as a violation shows it.
type written big.Rat

// String returns the bound: exactly if it is a small integer, rounded otherwise.
func (w *written) String() string {
	r := (*big.Rat)(w)
	if r.IsInt() && r.Num().BitLen() < 64 {
		return r.RatString()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func bitsOf(r *big.Rat) int { return r.Num().BitLen() + r.Denom().BitLen() }
