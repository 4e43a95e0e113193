// Package jsontext works on JSON as text. Rewrite changes its strings and numbers
// and leaves the rest byte for byte as it was, in one pass: package redact takes
// personal data out with it, and package trace shortens what is too long to keep.
// Object writes what every request has: what goes to the vendor, into the ledger's
// spool and back to the caller.
package jsontext

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Change is what becomes of a JSON text. What a function returns with false is
// left as it was.
type Change struct {
	// String gives the text that takes a string's place: a value, or the name of a
	// member.
	String func(text string) (string, bool)
	// Number gives the text of a string that takes the number's place; nil leaves
	// numbers alone.
	Number func(digits string) (string, bool)
}

// Rewrite gives the text with the change made, which is valid JSON again. The
// text must be valid.
func Rewrite(text []byte, c Change) []byte {
	out := make([]byte, 0, len(text)+len(text)/16)
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b == '"':
			end := stringEnd(text, i)
			out = appendString(out, text[i:end], c.String)
			i = end
		case c.Number != nil && (b == '-' || b >= '0' && b <= '9'):
			end := numberEnd(text, i)
			if said, changed := c.Number(string(text[i:end])); changed {
				out = AppendText(out, said)
			} else {
				out = append(out, text[i:end]...)
			}
			i = end
		default:
			out = append(out, b)
			i++
		}
	}
	return out
}

// stringEnd is behind the quote that ends the string which begins at i.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

func numberEnd(text []byte, i int) int {
	for i < len(text) {
		switch b := text[i]; {
		case b >= '0' && b <= '9', b == '-', b == '+', b == '.', b == 'e', b == 'E':
			i++
		default:
			return i
		}
	}
	return i
}

func appendString(out, quoted []byte, change func(string) (string, bool)) []byte {
	text, ok := Unquote(quoted)
	if !ok {
		return append(out, quoted...)
	}
	said, changed := change(text)
	if !changed {
		return append(out, quoted...)
	}
	return AppendText(out, said)
}

// Unquote reads a JSON string.
func Unquote(quoted []byte) (text string, ok bool) {
	if len(quoted) < 2 {
		return "", false
	}
	if inside := quoted[1 : len(quoted)-1]; bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return string(inside), true
	}
	ok = json.Unmarshal(quoted, &text) == nil
	return text, ok
}
