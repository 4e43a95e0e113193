package testkit

import (
	"regexp"
	"strings"
	"testing"
)

// mostDigits is how many significant digits of any decimal number a float64 holds.
const mostDigits = 15

// amountField matches a JSON number in a field whose name says that it is a number of cents.
var amountField = regexp.MustCompile(`"[a-z_]*cents[a-z_]*" ?: ?-?([0-9][0-9.]*)`)

// CheckDecimals fails the test if an amount in a body of JSON has more digits than a float64 holds: such a number was
// computed in binary fractions, and is not the decimal amount.
func CheckDecimals(tb testing.TB, body string) {
	tb.Helper()
	for _, found := range amountField.FindAllStringSubmatch(body, -1) {
		digits := strings.Trim(strings.Replace(found[1], ".", "", 1), "0")
		if len(digits) > mostDigits {
			tb.Errorf("%s is no decimal amount of at most %d digits", found[0], mostDigits)
		}
	}
}
