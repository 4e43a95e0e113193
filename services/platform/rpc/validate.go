package rpc

import (
	"bytes"
	"encoding/base32"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// violation is implemented by the errors of protoc-gen-validate.
type violation interface {
	error
	Field() string
	Reason() string
	Cause() error
}

// Validate applies the contract's rules to a message. The error names the field by its JSON path and the rule that it
// breaks. Messages without rules pass.
func Validate(m any) error {
	if message, ok := m.(proto.Message); ok {
		if path, rule := unfit(message.ProtoReflect()); path != "" {
			return apierr.Invalid(path, rule)
		}
	}
	return applyRules(m)
}

// ValidateRead is Validate for a message whose values were all read from the given JSON texts. It is cheaper, because it
// searches the texts for what no field may hold instead of the message.
func ValidateRead(m any, texts ...[]byte) error {
	for _, text := range texts {
		if slices.ContainsFunc(unfitTexts, func(unfit []byte) bool { return bytes.Contains(text, unfit) }) {
			return Validate(m)
		}
	}
	return applyRules(m)
}

// unfitTexts are in every JSON that contains a zero byte, or a number that is not finite (ProtoJSON), whose name may be
// written with escapes.
var unfitTexts = [][]byte{[]byte(`\u00`), []byte(`"NaN"`), []byte(`Infinity"`)}

// applyRules applies the generated rules only.
func applyRules(m any) error {
	rules, ok := m.(interface{ Validate() error })
	if !ok {
		return nil
	}
	err := rules.Validate()
	if err == nil {
		return nil
	}
	var path []string
	for {
		broken, ok := err.(violation) //nolint:errorlint // Generated errors nest by Cause, not by Unwrap.
		if !ok {
			return apierr.Invalid(strings.Join(path, "."), err.Error())
		}
		path = append(path, screen.Path(jsonName(broken.Field()), "."))
		if broken.Cause() == nil {
			return apierr.Invalid(strings.Join(path, "."), plainRule(broken.Reason()))
		}
		err = broken.Cause()
	}
}

// The rules for values of every field.
const (
	ruleZeroByte = "must not hold a zero byte"
	ruleFinite   = "must be a finite number"
)

// unfit returns the path of a value that no field may hold and the rule that it breaks, or "" if there is none: a string
// with U+0000, which JSON can carry and Postgres can't store, and a number that is not finite, which every bound of the
// generated rules lets pass.
func unfit(m protoreflect.Message) (path, rule string) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := string(field.Name())
		switch {
		case field.IsMap():
			value.Map().Range(func(key protoreflect.MapKey, item protoreflect.Value) bool {
				if path, rule = unfitIn(field.MapKey(), key.Value()); path == "" {
					path, rule = unfitIn(field.MapValue(), item)
				}
				path = within(name, path)
				return path == ""
			})
		case field.IsList():
			for i := 0; i < value.List().Len() && path == ""; i++ {
				if path, rule = unfitIn(field, value.List().Get(i)); path != "" {
					path = within(name+"["+strconv.Itoa(i)+"]", path)
				}
			}
		default:
			path, rule = unfitIn(field, value)
			path = within(name, path)
		}
		return path == ""
	})
	return path, rule
}

// unfitIn is unfit for one value; "." stands for the value itself.
func unfitIn(field protoreflect.FieldDescriptor, value protoreflect.Value) (path, rule string) {
	switch field.Kind() {
	case protoreflect.StringKind:
		if strings.IndexByte(value.String(), 0) >= 0 {
			return ".", ruleZeroByte
		}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		if n := value.Float(); math.IsNaN(n) || math.IsInf(n, 0) {
			return ".", ruleFinite
		}
	case protoreflect.MessageKind:
		return unfit(value.Message())
	default:
	}
	return "", ""
}

func within(name, path string) string {
	switch path {
	case "":
		return ""
	case ".":
		return name
	}
	return name + "." + path
}

// ruleTexts replaces the generated texts of rules for required fields, and of limits that begin at one.
var ruleTexts = strings.NewReplacer(
	"value length must be at least 1 runes", "is required",
	"value length must be at least 1 bytes", "is required",
	"value must contain at least 1 item(s)", "is required",
	"value is required", "is required",
	"value length must be between 1 and ", "is required, at most ",
	"value must contain between 1 and ", "is required, at most ",
	" runes, inclusive", " characters",
	" items, inclusive", " items",
)

// plainRule returns a rule's text in plain words if it is a common one, else the generated text.
func plainRule(reason string) string { return ruleTexts.Replace(wordsOfPattern(reason)) }

// jsonName turns the Go name of a generated field ("OrganizationId", "Messages[0]") into its JSON name.
func jsonName(field string) string {
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) {
			if i > 0 && field[i-1] != '_' {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// maxRequestID is the maximum length of a caller's own request id.
const maxRequestID = 128

// RequestID returns the caller's request id if it is valid: 1 to 128 ASCII letters, digits, or characters of "._:-",
// and not similar to a key. Otherwise it returns a new one, a UUIDv7 in base32hex, so that ids sort by time and an
// index of them grows at one end.
func RequestID(given string) string {
	if given != "" && len(given) <= maxRequestID && strings.IndexFunc(given, notInID) < 0 && !screen.IDLooksLikeKey(given) {
		return given
	}
	id, err := uuid.NewV7()
	if err != nil {
		id = uuid.New() // A random UUID loses only the order of ids.
	}
	const prefix, digits = "req_", 26
	var text [len(prefix) + digits]byte
	idEncoding.Encode(text[copy(text[:], prefix):], id[:])
	return string(text[:])
}

// notInID reports whether a character can't be part of a request id.
func notInID(r rune) bool {
	letter := r|0x20 >= 'a' && r|0x20 <= 'z'
	return !letter && (r < '0' || r > '9') && r != '.' && r != '_' && r != ':' && r != '-'
}

// idEncoding keeps the sort order of what it encodes (RFC 4648, section 7).
var idEncoding = base32.HexEncoding.WithPadding(base32.NoPadding)
