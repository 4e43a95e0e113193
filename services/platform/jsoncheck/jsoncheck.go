// Package jsoncheck reports whether bytes from outside are JSON that is safe to parse: well-formed, and not nested so
// deeply that a recursive parser exhausts its stack. It is the only such check of all services. Data from customers and
// vendors passes it before any other code parses it.
package jsoncheck

import (
	"bytes"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// MaxDepth is how deeply arrays and objects may be nested. Requests and responses have a few levels, JSON schemas a few
// dozen.
const MaxDepth = 200

// RuleDepth is the rule that a TooDeep value breaks, for the error of its field.
const RuleDepth = "must not be nested deeper than 200 levels"

// MaxContainers is how many arrays and objects a request may contain. One of two bytes takes up to a hundred bytes in a
// decoded message, before a rule on the length of its list can refuse it.
const MaxContainers = 1 << 18

// RuleContainers is the rule that a value with more than MaxContainers arrays and objects breaks.
const RuleContainers = "must not hold more than 262144 arrays and objects"

// RuleObject is the rule that any value but an object breaks.
const RuleObject = "must be a JSON object"

// ObjectRule returns the rule that data breaks as a JSON object in UTF-8 within all limits, for the error of its field.
// It returns "" if data breaks none.
func ObjectRule(data []byte) string {
	object := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case len(object) == 0 || object[0] != '{':
		return RuleObject
	case TooDeep(data):
		return RuleDepth
	case TooMany(data):
		return RuleContainers
	case !utf8.Valid(data) || !Valid(data):
		return RuleObject
	}
	return ""
}

// Valid reports whether data is one JSON value (RFC 8259) with at most MaxDepth levels. Like encoding/json, it accepts
// duplicate names, unpaired surrogates and bytes that are not UTF-8.
func Valid(data []byte) bool {
	return !TooDeep(data) && gjson.ValidBytes(data) //nolint:forbidigo // The depth is bounded first.
}

// TooDeep reports whether data, valid or not, is nested more than MaxDepth levels. It is linear in the size of data and
// allocates nothing.
func TooDeep(data []byte) bool {
	if Opened(data) <= MaxDepth {
		return false // True for almost all data.
	}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			i = closingQuote(data, i+1)
		}
	}
	return false
}

// TooMany reports whether data, valid or not, contains more than MaxContainers arrays and objects. It is linear in the
// size of data and allocates nothing.
func TooMany(data []byte) bool {
	return Opened(data) > MaxContainers && Containers(data) > MaxContainers
}

// Containers returns how many arrays and objects data opens, valid or not. It is linear in the size of data and
// allocates nothing.
func Containers(data []byte) (n int) {
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			n++
		case '"':
			i = closingQuote(data, i+1)
		}
	}
	return n
}

// Opened returns the number of opening brackets in data, including those in strings. It is an upper bound of levels and
// of arrays and objects, and counting is much faster than scanning.
func Opened(data []byte) int { return bytes.Count(data, openObject) + bytes.Count(data, openArray) }

var openObject, openArray = []byte{'{'}, []byte{'['}

// closingQuote returns the index of the quote that ends the string whose text begins at i, or the length of data if
// there is none.
func closingQuote(data []byte, i int) int {
	for i < len(data) {
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			break
		}
		end, slash := i+n, i+n
		for slash > i && data[slash-1] == '\\' {
			slash--
		}
		if (end-slash)%2 == 0 {
			return end
		}
		i = end + 1 // The quote is escaped.
	}
	return len(data)
}
