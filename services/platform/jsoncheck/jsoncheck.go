// Package jsoncheck reports whether bytes from outside are JSON that may be read:
// well-formed, and not nested so deeply that a reader which recurses runs out of
// stack. It is the one such check of all services; what comes from a customer or a
// vendor passes it before anything else reads it.
package jsoncheck

import (
	"bytes"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// MaxDepth is how many arrays and objects may lie in one another. Requests and
// answers have a handful of levels, JSON schemas a few dozen.
const MaxDepth = 200

// RuleDepth is the rule that a value which is TooDeep breaks, for the error of its field.
const RuleDepth = "must not be nested deeper than 200 levels"

// MaxContainers is how many arrays and objects a request may hold. One of two bytes
// takes up to a hundred when it is read into a message, before a rule on the length
// of its list can refuse it.
const MaxContainers = 1 << 18

// RuleContainers is the rule that a value with TooMany of them breaks.
const RuleContainers = "must not hold more than 262144 arrays and objects"

// RuleObject is the rule that anything else than an object breaks.
const RuleObject = "must be a JSON object"

// ObjectRule returns the rule that data breaks as a JSON object in UTF-8 within all
// bounds, for the error of its field; "" where it breaks none.
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

// Valid reports whether data is one JSON value (RFC 8259) with at most MaxDepth
// levels. It takes what encoding/json takes: duplicate names, unpaired surrogates
// and bytes that are no UTF-8 pass.
func Valid(data []byte) bool {
	return !TooDeep(data) && gjson.ValidBytes(data) //nolint:forbidigo // The one place that bounds the depth first.
}

// TooDeep reports whether data opens more than MaxDepth levels within one another,
// valid or not. It is linear in the size of data and takes no memory.
func TooDeep(data []byte) bool {
	if Opened(data) <= MaxDepth {
		return false // So it is with nearly all answers.
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

// TooMany reports whether data opens more than MaxContainers arrays and objects,
// valid or not. It is linear in the size of data and takes no memory.
func TooMany(data []byte) bool {
	return Opened(data) > MaxContainers && Containers(data) > MaxContainers
}

// Containers returns how many arrays and objects data opens, valid or not. It is
// linear in the size of data and takes no memory.
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

// Opened counts opening brackets, those within texts too. No JSON in data has more
// levels or more arrays and objects; counting is much quicker than walking.
func Opened(data []byte) int { return bytes.Count(data, openObject) + bytes.Count(data, openArray) }

var openObject, openArray = []byte{'{'}, []byte{'['}

// closingQuote is the place of the quote that ends the string whose text begins at
// i; the length of data where none does.
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
