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

// Change holds the functions that Rewrite applies. A value is left as it was if the function returns false. A nil
// function changes nothing.
type Change struct {
	// String returns the text that replaces a string. The outermost Change also gets the names of all members.
	String func(text string) (string, bool)
	// Number returns the text of a string that replaces the number.
	Number func(digits string) (string, bool)
	// Member returns what happens to the value of a member: a text that replaces it, whatever it holds, unless it is
	// true, false or null; or, if the text is empty, the Change within it. A nil Change continues the present one.
	Member func(name string) (instead string, within *Change)
}

// Rewrite returns text with the change made, which is valid JSON again. The text must be valid.
func Rewrite(text []byte, c Change) []byte {
	out := make([]byte, 0, len(text)+len(text)/16)
	containers := []*Change{&c} // the change of each open array and object
	value, instead := &c, ""    // for the next value
	for i := 0; i < len(text); {
		b, end := text[i], i+1
		if b == '"' {
			if end = stringEnd(text, i); isFollowedByColon(text[end:]) {
				instead, value = containers[len(containers)-1].member(text[i:end])
				out, i = appendString(out, text[i:end], c.String), end
				continue
			}
		}
		switch isNumber := b == '-' || b >= '0' && b <= '9'; {
		case instead != "" && (isNumber || b == '"' || b == '{' || b == '['):
			end = valueEnd(text, i)
			out, instead = AppendText(out, instead), ""
		case b == '"':
			out = appendString(out, text[i:end], value.String)
		case isNumber:
			end = numberEnd(text, i)
			out = appendNumber(out, text[i:end], value.Number)
		case b == '{' || b == '[':
			containers = append(containers, value)
			out = append(out, b)
		case b == ',' || b == '}' || b == ']':
			if b != ',' {
				containers = containers[:max(1, len(containers)-1)]
			}
			value, instead = containers[len(containers)-1], ""
			out = append(out, b)
		default:
			out = append(out, b)
		}
		i = end
	}
	return out
}

// member returns what happens to the value of the member that has a quoted name.
func (c *Change) member(quoted []byte) (instead string, within *Change) {
	if c.Member == nil {
		return "", c
	}
	name, _ := Unquote(quoted)
	if instead, within = c.Member(name); within == nil {
		within = c
	}
	return instead, within
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

// valueEnd returns the offset behind the string, number, array or object that begins at i.
func valueEnd(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch b := text[i]; {
		case b == '"':
			i = stringEnd(text, i)
		case b == '{' || b == '[':
			depth++
			i++
		case b == '}' || b == ']':
			depth--
			i++
		case depth == 0:
			return numberEnd(text, i)
		default:
			i++
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

func appendString(out, quoted []byte, change func(string) (string, bool)) []byte {
	if change == nil {
		return append(out, quoted...)
	}
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

func appendNumber(out, digits []byte, change func(string) (string, bool)) []byte {
	if change != nil {
		if replacement, changed := change(string(digits)); changed {
			return AppendText(out, replacement)
		}
	}
	return append(out, digits...)
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
