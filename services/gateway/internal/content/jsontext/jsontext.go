// Package jsontext works on JSON as text. Rewrite changes its strings and numbers and leaves the rest byte for byte as
// it was, in one pass: package redact removes personal data with it, and package trace shortens what is too long to
// keep. Marshal writes JSON without HTML escapes, for answers of the faces and requests of the OpenAI dialect.
package jsontext

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json/jsontext"
)

// Marshal returns a value's JSON as json.Marshal does, but without HTML escapes, which would make texts longer.
func Marshal(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// AppendText appends text as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendText(dst []byte, text string) []byte {
	dst, _ = jsonv2.AppendQuote(dst, text) // The error only reports the replacement.
	return dst
}

// Change holds the functions that Rewrite applies. A value is left as it was if the function returns false.
type Change struct {
	// String returns the text that replaces a string: a value, or the name of a member.
	String func(text string) (string, bool)
	// Member returns the text that replaces the string of a member, or each string of its array, whatever it holds; nil
	// leaves members to String.
	Member func(name string) (string, bool)
	// Number returns the text of a string that replaces the number; nil leaves numbers alone.
	Number func(digits string) (string, bool)
}

// Rewrite returns text with the change made, which is valid JSON again. The text must be valid.
func Rewrite(text []byte, c Change) []byte {
	out := make([]byte, 0, len(text)+len(text)/16)
	instead, replaced := "", false // of the present member
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b == '"':
			end := stringEnd(text, i)
			switch isName := c.Member != nil && isFollowedByColon(text[end:]); {
			case isName:
				instead, replaced = "", false
				if name, ok := Unquote(text[i:end]); ok {
					instead, replaced = c.Member(name)
				}
				out = appendString(out, text[i:end], c.String)
			case replaced:
				out = AppendText(out, instead)
			default:
				out = appendString(out, text[i:end], c.String)
			}
			i = end
		case b == '{' || b == '}':
			replaced = false
			out = append(out, b)
			i++
		case c.Number != nil && (b == '-' || b >= '0' && b <= '9'):
			end := numberEnd(text, i)
			if replacement, changed := c.Number(string(text[i:end])); changed {
				out = AppendText(out, replacement)
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

// isFollowedByColon reports whether text begins with a colon, after white space.
func isFollowedByColon(text []byte) bool {
	for _, b := range text {
		switch b {
		case ' ', '\t', '\r', '\n':
		default:
			return b == ':'
		}
	}
	return false
}

// stringEnd returns the offset behind the closing quote of the string that begins at i.
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
	replacement, changed := change(text)
	if !changed {
		return append(out, quoted...)
	}
	return AppendText(out, replacement)
}

// Unquote decodes a JSON string. ok is false if quoted isn't one.
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
