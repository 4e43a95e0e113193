package wire

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"
)

// Member is a member of a JSON object to set; Value is JSON.
type Member struct {
	Name, Value string
}

// Override returns the JSON object body with members set, all else byte for byte
// as it was. A member that is there twice, or in other letters, goes: which of
// them a vendor reads is nothing to rely on. The body must be a valid object.
func Override(body []byte, members ...Member) json.RawMessage {
	size := len(body) + 2
	for _, m := range members {
		size += len(m.Name) + len(m.Value) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i, m := range members {
		if i > 0 {
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

// ParseView reads JSON without a copy of it: the result, and every string taken
// from it, holds only as long as data does. Text and Bytes make strings that
// last. data is not checked; see package jsoncheck.
func ParseView(data []byte) gjson.Result {
	return gjson.Parse(unsafe.String(unsafe.SliceData(data), len(data))) //nolint:gosec // G103: the view never outlives data.
}

// Text is the value of a JSON string as a string of its own; anything else is "".
// What is not Unicode becomes U+FFFD.
func Text(value gjson.Result) string {
	if value.Type != gjson.String {
		return ""
	}
	switch {
	case !utf8.ValidString(value.Str): // Much sooner told than ToValidUTF8 tells it.
		return strings.ToValidUTF8(value.Str, "\ufffd")
	case strings.IndexByte(value.Raw, '\\') >= 0: // gjson has made a string of it.
		return value.Str
	}
	return strings.Clone(value.Str)
}

// Bytes is the JSON of a value as bytes of its own; nil when it isn't there.
func Bytes(value gjson.Result) json.RawMessage {
	if !value.Exists() {
		return nil
	}
	return json.RawMessage(value.Raw)
}
