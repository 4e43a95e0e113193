package expression

import (
	"math"
	"strconv"
	"strings"
)

const (
	// maxExact is the magnitude from which float64s have no fraction, and may differ from the number that was parsed.
	maxExact = 1 << 53
	// minInt is the smallest whole number of 64 bits. maxUint is one more than the largest.
	minInt  = -1 << 63
	maxUint = 1 << 64
)

// number returns the value of a JSON number. A whole number that fits into 64 bits becomes an int64, or else a uint64,
// if it has neither point nor exponent or is at least 2^53 in magnitude. Any other number becomes the nearest float64,
// infinite beyond the range of float64. CEL compares numbers of different types through float64. A number just outside
// 64 bits therefore becomes the next float64 further out, which equals no number of 64 bits.
func number(text string) any {
	if !strings.ContainsAny(text, ".eE") {
		if n, ok := integer(text); ok {
			return n
		}
	}
	f, _ := strconv.ParseFloat(text, 64)
	if math.Abs(f) < maxExact || f < minInt || f > maxUint {
		return f
	}
	if n, ok := integer(plain(text)); ok {
		return n
	}
	switch f {
	case minInt:
		return math.Nextafter(f, math.Inf(-1))
	case maxUint:
		return math.Nextafter(f, math.Inf(1))
	}
	return f
}

// integer parses decimal digits with an optional sign as an int64, or else as a uint64.
func integer(text string) (any, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

// plain rewrites a number without point and exponent; its magnitude must be 2^53 to 2^64. It returns a number with a
// fraction unchanged.
func plain(text string) string {
	mantissa, exponent := text, 0
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		mantissa = text[:e]
		exponent, _ = strconv.Atoi(text[e+1:])
	}
	digits, fraction, _ := strings.Cut(mantissa, ".")
	point := len(digits) + exponent
	digits += fraction
	if point > len(digits) {
		return digits + strings.Repeat("0", point-len(digits))
	}
	if strings.Trim(digits[max(point, 0):], "0") != "" {
		return text
	}
	return digits[:max(point, 0)]
}
