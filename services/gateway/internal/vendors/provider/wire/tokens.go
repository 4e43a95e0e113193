package wire

import "github.com/tidwall/gjson"

// MaxTokens is larger than any real count of tokens, and small enough that sums don't overflow.
const MaxTokens = 1 << 40

// Tokens reads a count of tokens: the whole part of a decimal number, at least 0 and at most MaxTokens. ok is false if
// the value is not a number, because absent is not zero.
func Tokens(value gjson.Result) (n int64, ok bool) {
	if value.Type != gjson.Number {
		return 0, false
	}
	if !(value.Num > 0) { // NaN, too.
		return 0, true
	}
	return int64(min(value.Num, MaxTokens)), true
}
