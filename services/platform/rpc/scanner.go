package rpc

import (
	"bytes"
	"encoding/binary"

	"github.com/go-json-experiment/json/jsontext"

	"switchyard.dev/services/platform/jsoncheck"
)

// scanner reads JSON text (RFC 8259) for unmarshalFast, strictly and in one pass. The text must be valid UTF-8. Each
// method skips space, then reads one thing and reports whether it was there; after false the scanner can't be used
// further.
type scanner struct {
	text  []byte
	at    int
	depth int
}

// peek skips space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		if c := s.text[s.at]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

func (s *scanner) end() bool { return s.peek() == 0 && s.at == len(s.text) }

func (s *scanner) take(token string) bool {
	s.peek()
	if !bytes.HasPrefix(s.text[s.at:], []byte(token)) {
		return false
	}
	s.at += len(token)
	return true
}

// items reads a comma-separated list between opening and closing.
func (s *scanner) items(opening, closing string, item func() bool) bool {
	if s.depth == jsoncheck.MaxDepth || !s.take(opening) {
		return false
	}
	s.depth++
	for more := s.peek() != closing[0]; more; more = s.take(",") {
		if !item() {
			return false
		}
	}
	s.depth--
	return s.take(closing)
}

// members reads an object. Names are passed as written, without unescaping.
func (s *scanner) members(value func(name []byte) bool) bool {
	return s.items("{", "}", func() bool {
		name, ok := s.quoted()
		return ok && s.take(":") && value(name[1:len(name)-1])
	})
}

// value skips any value. It permits duplicate names; the code that parses the value later decides about them.
func (s *scanner) value() (ok bool) {
	switch s.peek() {
	case '"':
		_, ok = s.quoted()
	case '{':
		ok = s.members(func([]byte) bool { return s.value() })
	case '[':
		ok = s.items("[", "]", s.value)
	case 't', 'f', 'n':
		ok = s.take("true") || s.take("false") || s.take("null")
	default:
		_, ok = s.number()
	}
	return ok
}

// raw returns a value as written. It reports false for null.
func (s *scanner) raw() (text []byte, ok bool) {
	null := s.peek() == 'n'
	start := s.at
	ok = s.value() && !null
	return s.text[start:s.at:s.at], ok
}

// number returns a number as written.
func (s *scanner) number() (text []byte, ok bool) {
	s.peek()
	rest := s.text[s.at:]
	text = rest[:len(rest)-len(bytes.TrimLeft(rest, "+-.0123456789eE"))]
	s.at += len(text)
	return text, jsoncheck.Valid(text)
}

// string returns the unescaped content of a string.
func (s *scanner) string() (string, bool) {
	text, ok := s.quoted()
	if bytes.IndexByte(text, '\\') < 0 {
		return string(bytes.Trim(text, `"`)), ok
	}
	unquoted, err := jsontext.AppendUnquote(nil, text) // An unpaired surrogate is an error.
	return string(unquoted), ok && err == nil
}

// quoted returns a string as written, with its quotes.
func (s *scanner) quoted() (text []byte, ok bool) {
	if !s.take(`"`) {
		return nil, false
	}
	start := s.at - 1
	for escaped := false; ; escaped = true {
		s.at += plainLen(s.text[s.at:])
		switch rest := s.text[s.at:]; {
		case len(rest) > 0 && rest[0] == '"':
			s.at++
			text = s.text[start:s.at]
			return text, !escaped || jsoncheck.Valid(text)
		case len(rest) > 1 && rest[0] == '\\':
			s.at += 2
		default:
			return nil, false
		}
	}
}

// plainLen returns the number of bytes before the first quote, backslash or control character. It examines eight bytes
// at a time: among bytes below 0x80, a control character gets its high bit set in x-0x20, and the character c gets it
// in (x^c)-1.
func plainLen(text []byte) (n int) {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(text); n += 8 {
		x := binary.LittleEndian.Uint64(text[n:])
		quote, slash := x^('"'*each), x^('\\'*each)
		if ((x-' '*each)&^x|(quote-each)&^quote|(slash-each)&^slash)&high != 0 {
			break
		}
	}
	for n < len(text) && text[n] >= ' ' && text[n] != '"' && text[n] != '\\' {
		n++
	}
	return n
}
