// Package canonical brings JSON into the one form in which it is checked, digested and sent on (RFC 8785, the JSON
// Canonicalization Scheme). What readers could understand differently is refused instead of normalized: names that
// occur twice, text that is not Unicode, numbers that a double doesn't hold exactly. The bytes that a person approves
// are then the bytes that a server gets.
package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"switchyard.dev/services/platform/jsoncheck"
)

// MaxDepth is how deeply the arrays and objects of Value and Object may be nested. Those of AsWritten may be nested as
// deeply as JSON from outside may be at all (jsoncheck.MaxDepth).
const MaxDepth = 64

// Object returns the canonical form of a JSON object, such as the arguments of a call. Text without any value is the
// empty object: a call without arguments is the call with none. The error is a *Error.
func Object(text []byte) ([]byte, error) {
	if len(bytes.TrimLeft(text, space)) == 0 {
		return []byte("{}"), nil
	}
	if bytes.TrimLeft(text, space)[0] != '{' {
		return nil, &Error{Rule: jsoncheck.RuleObject}
	}
	return Value(text)
}

const space = " \t\r\n"

// Value returns the canonical form of a JSON value: members ordered by name, texts with the fewest escapes, numbers as
// RFC 8785 writes doubles. Values that are equal have the same form, and the form of a form is itself. The error is a
// *Error.
func Value(text []byte) ([]byte, error) {
	if err := scan(text, MaxDepth, exact); err != nil {
		return nil, err
	}
	return format(text, true)
}

// AsWritten returns the form of a JSON value in which members are ordered and texts have the fewest escapes, but each
// number stays as it was written: 1 and 1.0 differ. It is for what is only ever compared, such as the schemas of
// vendors, which hold numbers beyond the doubles. The error is a *Error.
func AsWritten(text []byte) ([]byte, error) {
	if err := scan(text, jsoncheck.MaxDepth, anyNumber); err != nil {
		return nil, err
	}
	return format(text, false)
}

// format orders and rewrites a text that scan has accepted.
func format(text []byte, numbers bool) ([]byte, error) {
	form, err := jsontext.AppendFormat(nil, text, jsontext.ReorderRawObjects(true),
		jsontext.CanonicalizeRawInts(numbers), jsontext.CanonicalizeRawFloats(numbers))
	if err != nil {
		return nil, errorOf(err)
	}
	return form, nil
}

// scan reads a whole text once, and refuses what is not one JSON value, is nested deeper than depth or has a number that
// number refuses.
func scan(text []byte, depth int, number func(text string) string) error {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text))
	for {
		token, err := decoder.ReadToken()
		switch {
		case err != nil:
			return errorOf(err)
		case decoder.StackDepth() > depth:
			return refuse(decoder.StackPointer(), fmt.Sprintf("must not be nested deeper than %d levels", depth))
		case token.Kind() == jsontext.KindNumber:
			if rule := number(token.String()); rule != "" {
				return refuse(decoder.StackPointer(), rule)
			}
		}
		if decoder.StackDepth() == 0 {
			break
		}
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return &Error{Rule: ruleOne}
	}
	return nil
}

// The rules that texts break.
const (
	ruleJSON      = "must be JSON in valid UTF-8, without single surrogates"
	ruleOne       = "must be one JSON value, with nothing after it"
	ruleDuplicate = "must not hold a name twice"
)

// Error is the error of a text that has no canonical form. It holds nothing of the text but names of members.
type Error struct {
	// Pointer is the JSON Pointer (RFC 6901) of the value that breaks the rule; empty for the whole.
	Pointer string
	Rule    string
}

// Error implements error.
func (r *Error) Error() string {
	if r.Pointer == "" {
		return r.Rule
	}
	return r.Pointer + ": " + r.Rule
}

// maxPointer bounds a Pointer, in bytes.
const maxPointer = 256

func refuse(at jsontext.Pointer, rule string) *Error {
	pointer := string(at)
	if len(pointer) > maxPointer {
		pointer = string(bytes.ToValidUTF8([]byte(pointer[:maxPointer]), nil)) + "…"
	}
	return &Error{Pointer: pointer, Rule: rule}
}

// errorOf returns the error of a text that the decoder can't read.
func errorOf(err error) *Error {
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return &Error{Rule: ruleJSON} // There is no value.
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return refuse(syntactic.JSONPointer, ruleDuplicate)
	}
	return refuse(syntactic.JSONPointer, ruleJSON)
}

// Digest returns the SHA-256 of a list of parts within a domain, such as "tool-definition". Neither another domain nor
// another division into parts has the same digest: each part is preceded by its length. A domain must not hold NUL.
func Digest(domain string, parts ...[]byte) [sha256.Size]byte {
	sum := sha256.New()
	sum.Write([]byte("v1\x00" + domain + "\x00"))
	for _, part := range parts {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		sum.Write(part)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}
