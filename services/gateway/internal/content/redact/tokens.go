package redact

import (
	"fmt"

	"github.com/tidwall/gjson"
)

// KindTokens is text to embed that is given as token numbers of a model's vocabulary: a reader with the vocabulary can
// decode it, but no detector can.
const KindTokens Kind = "tokens"

// Tokens returns a request for embeddings without the token numbers of its input, and adds KindTokens to found if there
// were any.
func Tokens(request []byte, found Kinds) []byte {
	input := gjson.GetBytes(request, "input")
	first := input.Get("0")
	if input.Index == 0 || !input.IsArray() || first.Type != gjson.Number && !first.IsArray() {
		return request
	}
	found[KindTokens] = true
	n := 0
	input.ForEach(func(_, item gjson.Result) bool {
		n += max(int(item.Get("#").Int()), 1)
		return true
	})
	out := append([]byte(nil), request[:input.Index]...)
	out = fmt.Appendf(out, `"[%s, %d of them]"`, KindTokens, n)
	return append(out, request[input.Index+len(input.Raw):]...)
}
