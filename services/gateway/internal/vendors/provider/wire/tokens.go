package wire

import "github.com/tidwall/gjson"

// MaxTokens is beyond any count of tokens, and far from where sums overflow.
const MaxTokens = 1 << 40

// Tokens reads a count of tokens: of a broken number its whole part, nothing
// below zero and at most MaxTokens. False where it is no number; absent is not
// zero.
func Tokens(value gjson.Result) (n int64, ok bool) {
	if value.Type != gjson.Number {
		return 0, false
	}
	if !(value.Num > 0) { // NaN too.
		return 0, true
	}
	return int64(min(value.Num, MaxTokens)), true
}
