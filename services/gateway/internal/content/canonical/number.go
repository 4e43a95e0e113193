package canonical

import (
	"math"
	"strconv"
	"strings"
)

// maxNumber is the largest magnitude of a number. Beyond it, neighbouring integers are the same double, and two calls
// would have one digest.
const maxNumber = 1<<53 - 1

// The rules that numbers break.
const (
	ruleRange = "must be within ±(2^53-1), or a string"
	ruleExact = "must be a number that a double holds with all its digits, or a string"
)

// anyNumber accepts every number.
func anyNumber(string) string { return "" }

// exact returns the rule that a number breaks unless a double holds it: unless its shortest form has the same value.
func exact(text string) string {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(value) > maxNumber {
		return ruleRange
	}
	digits, exponent := decimal(text)
	shortest, same := decimal(strconv.FormatFloat(value, 'e', -1, 64))
	if digits != shortest || exponent != same {
		return ruleExact
	}
	return ""
}

// decimal returns the value of a number as 0.digits times ten to the power of exponent, where digits neither begin nor
// end with a zero; zero has no digits. The sign doesn't matter here.
func decimal(text string) (digits string, exponent int) {
	text = strings.TrimPrefix(text, "-")
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		// What is out of the range of integers belongs to a zero, or to a number whose double is zero.
		exponent, _ = strconv.Atoi(strings.TrimPrefix(text[i+1:], "+"))
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	exponent += len(whole) - (len(whole) + len(fraction) - len(digits))
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return "", 0
	}
	return digits, exponent
}
