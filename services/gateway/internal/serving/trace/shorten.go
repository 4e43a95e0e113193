package trace

import (
	"encoding/json"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/content/jsontext"
)

// cutMark ends a text that was shortened.
const cutMark = "…[cut]"

// shorten returns a JSON text of at most most bytes, by cutting its longest strings, so that its structure can still be
// read; nil where even that is too long. cut reports whether something is missing.
func shorten(text json.RawMessage, most int) (short json.RawMessage, cut bool) {
	if len(text) <= most {
		return text, false
	}
	for _, limit := range []int{16 << 10, 4 << 10, 1 << 10, 256, 64, 16} {
		text = jsontext.Rewrite(text, jsontext.Change{String: func(s string) (string, bool) {
			if len(s) <= limit+len(cutMark) {
				return "", false
			}
			end := limit
			for !utf8.RuneStart(s[end]) {
				end--
			}
			return s[:end] + cutMark, true
		}})
		if len(text) <= most {
			return text, true
		}
	}
	return nil, true
}
