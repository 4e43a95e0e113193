package testkit

import (
	"regexp"
	"strings"
	"testing"
)

// mostDigits is how many significant digits a float64 preserves of any decimal number.
const mostDigits = 15

// amountField matches a JSON field with "cents" in its name and a number as its value.
var amountField = regexp.MustCompile(`"[a-z_]*cents[a-z_]*" ?: ?-?([0-9][0-9.]*)`)

// CheckDecimals fails the test if an amount of cents in a JSON body has more digits than a float64 holds: such a number
// was computed in binary fractions and is not the decimal amount.
func CheckDecimals(tb testing.TB, body string) {
	tb.Helper()
	for _, found := range amountField.FindAllStringSubmatch(body, -1) {
		digits := strings.Trim(strings.Replace(found[1], ".", "", 1), "0")
		if len(digits) > mostDigits {
			tb.Errorf("%s: want a decimal amount of at most %d digits", found[0], mostDigits)
		}
	}
}
