package expression

import (
	"math"
	"strconv"
	"strings"
)

// Beyond these bounds a float64 has no fraction, so it may differ from the number that it stands for: maxExact and its
// negative for all numbers, minInt and maxUint for those of 64 bits.
const (
	maxExact = 1 << 53
	minInt   = -1 << 63
	maxUint  = 1 << 64
)

// number returns a number of JSON: int64 or uint64 if it is written without point and exponent, or is at least 2^53, and
// is a whole number of 64 bits. All others are the nearest float64, infinite beyond its range. CEL compares numbers of
// different types through float64, so a number just beyond 64 bits becomes the next float64 that equals none within.
func number(text string) any {
	if n, ok := integer(text); ok {
		return n
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

// integer returns decimal digits with an optional sign as int64, or else as uint64.
func integer(text string) (any, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

// plain returns a whole number of 2^53 to 2^64 without point and exponent, and another text for a fraction.
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
