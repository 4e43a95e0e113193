package wire

import (
	"testing"

	"github.com/tidwall/gjson"
)

// A count is a number of tokens in any of the vendors' forms, and absent is not zero.
func TestTokens(t *testing.T) {
	for text, want := range map[string]struct {
		n  int64
		ok bool
	}{
		"7": {7, true}, "0": {0, true}, "7.9": {7, true}, "-7": {0, true}, "-1e400": {0, true},
		"1e3": {1000, true}, "1e400": {MaxTokens, true}, "9223372036854775807": {MaxTokens, true},
		"99999999999999999999999": {MaxTokens, true}, "1099511627777": {MaxTokens, true},
		`"7"`: {}, "null": {}, "true": {}, "[7]": {}, `{"n":7}`: {}, "": {},
	} {
		n, ok := Tokens(gjson.Parse(text))
		if n != want.n || ok != want.ok {
			t.Errorf("%s is %d (%t), want %d (%t)", text, n, ok, want.n, want.ok)
		}
	}
}
