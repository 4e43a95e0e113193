package wire

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deeply arrays and objects of a message may be nested.
const MaxDepth = 64

// Errors of a text that is refused as a message. None of them repeats a part of the text.
var (
	ErrDepth     = errors.New("must not be nested deeper than 64 levels")
	ErrDuplicate = errors.New("must not have two members of one name in an object")
	ErrJSON      = errors.New("must be one JSON value in UTF-8")
)

// Check returns an error unless text is one JSON value (RFC 8259) that every reader understands in the same way: in
// UTF-8 without unpaired surrogates, no name twice in an object, nested at most MaxDepth levels.
func Check(text []byte) error {
	if tooDeep(text) {
		return ErrDepth
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text))
	_, err := decoder.ReadValue()
	if err == nil {
		if _, err = decoder.ReadToken(); errors.Is(err, io.EOF) {
			return nil
		}
		return ErrJSON
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return ErrDuplicate
	}
	return ErrJSON
}

// tooDeep reports whether a text, valid or not, opens more than MaxDepth levels.
func tooDeep(text []byte) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
		case '[', '{':
			if depth++; depth > MaxDepth {
				return true
			}
		case ']', '}':
			depth--
		}
	}
	return false
}

// stringEnd returns the index of the quote that closes the string at i, or the length of the text.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

// checked is for a text that has passed Check.
var checked = jsontext.AllowDuplicateNames(true)

// Members calls each with the members of a JSON object, in their order, until it returns false. Values share the text's
// memory. The text has passed Check; it reports whether it is an object.
func Members(object []byte, each func(name string, value []byte) bool) bool {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(object), checked)
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return false
	}
	for decoder.PeekKind() == '"' {
		token, err := decoder.ReadToken()
		if err != nil {
			return false
		}
		name := token.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return false
		}
		end := decoder.InputOffset()
		if !each(name, object[end-int64(len(value)):end:end]) {
			break
		}
	}
	return true
}

// Text returns the value of a JSON string.
func Text(value []byte) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err == nil
}

// Elements calls each with the elements of a JSON array, in their order, until it returns false. Values share the text's
// memory. The text has passed Check; it reports whether it is an array.
func Elements(array []byte, each func(value []byte) bool) bool {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(array), checked)
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '[' {
		return false
	}
	for decoder.PeekKind() != ']' {
		value, err := decoder.ReadValue()
		if err != nil {
			return false
		}
		end := decoder.InputOffset()
		if !each(array[end-int64(len(value)) : end : end]) {
			break
		}
	}
	return true
}
