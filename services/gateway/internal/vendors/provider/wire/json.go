package wire

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"
)

// Member is a member of a JSON object to set. Value is JSON, or empty for a member to remove.
type Member struct {
	Name, Value string
}

// Override returns the JSON object body with members set, and the rest byte for byte as it was. Other members of the
// same name, in any case, are removed: which of several duplicates a vendor reads is not reliable. The body must be a
// valid object.
func Override(body []byte, members ...Member) json.RawMessage {
	size := len(body) + 2
	for _, m := range members {
		size += len(m.Name) + len(m.Value) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for _, m := range members {
		if m.Value == "" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, m.Name), ':'), m.Value...)
	}
	ParseView(body).ForEach(func(key, value gjson.Result) bool {
		for _, m := range members {
			if strings.EqualFold(key.Str, m.Name) {
				return true
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key.Raw...), ':'), value.Raw...)
		return true
	})
	return append(out, '}')
}

// ParseView parses JSON without copying it: the result, and every string taken from it, is valid only as long as data
// is. Text and Bytes return copies. data is not validated; see package jsoncheck.
func ParseView(data []byte) gjson.Result {
	return gjson.Parse(unsafe.String(unsafe.SliceData(data), len(data))) //nolint:gosec // G103: the view never outlives data.
}

// Text returns a copy of a JSON string's value; any other value is "". Invalid UTF-8 becomes U+FFFD.
func Text(value gjson.Result) string {
	if value.Type != gjson.String {
		return ""
	}
	switch {
	case !utf8.ValidString(value.Str): // Much faster than to let ToValidUTF8 find it.
		return strings.ToValidUTF8(value.Str, "\ufffd")
	case strings.IndexByte(value.Raw, '\\') >= 0: // gjson has made a copy.
		return value.Str
	}
	return strings.Clone(value.Str)
}

// Bytes returns a copy of a value's JSON, or nil if the value doesn't exist.
func Bytes(value gjson.Result) json.RawMessage {
	if !value.Exists() {
		return nil
	}
	return json.RawMessage(value.Raw)
}
