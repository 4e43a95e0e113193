package rpc

import (
	"bytes"
	"encoding/base32"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// violation is what the errors of protoc-gen-validate offer.
type violation interface {
	error
	Field() string
	Reason() string
	Cause() error
}

// Validate applies the contract's rules to a message. The error names the field
// by its JSON path and the rule it breaks. Messages without rules pass.
func Validate(m any) error {
	if message, ok := m.(proto.Message); ok {
		if path := zeroByte(message.ProtoReflect()); path != "" {
			return apierr.Invalid(path, "must not hold a zero byte")
		}
	}
	return obey(m)
}

// ValidateRead is Validate of a message whose strings were all read from JSON texts.
func ValidateRead(m any, texts ...[]byte) error {
	for _, text := range texts {
		if bytes.Contains(text, escapedZero) {
			return Validate(m)
		}
	}
	return obey(m)
}

// escapedZero is the only way for JSON to carry a zero byte.
var escapedZero = []byte(`\u0000`)

// obey applies the contract's rules alone.
func obey(m any) error {
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
			return apierr.Invalid(strings.Join(path, "."), plain(broken.Reason()))
		}
		err = broken.Cause()
	}
}

// zeroByte finds a string with U+0000, which JSON can carry and Postgres can't
// store. It is the path of the field, or empty.
func zeroByte(m protoreflect.Message) (path string) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := string(field.Name())
		switch {
		case field.IsMap():
			value.Map().Range(func(key protoreflect.MapKey, item protoreflect.Value) bool {
				path = within(name, zeroByteIn(field.MapValue(), item)+zeroByteIn(field.MapKey(), key.Value()))
				return path == ""
			})
		case field.IsList():
			for i := 0; i < value.List().Len() && path == ""; i++ {
				if path = zeroByteIn(field, value.List().Get(i)); path != "" {
					path = within(name+"["+strconv.Itoa(i)+"]", path)
				}
			}
		default:
			path = within(name, zeroByteIn(field, value))
		}
		return path == ""
	})
	return path
}

// zeroByteIn is zeroByte of one value; "." stands for the value itself.
func zeroByteIn(field protoreflect.FieldDescriptor, value protoreflect.Value) string {
	switch field.Kind() {
	case protoreflect.StringKind:
		if strings.IndexByte(value.String(), 0) >= 0 {
			return "."
		}
	case protoreflect.MessageKind:
		return zeroByte(value.Message())
	default:
	}
	return ""
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

// required are the forms in which the generated rules say that something is
// missing, or that its limits begin at one.
var required = strings.NewReplacer(
	"value length must be at least 1 runes", "is required",
	"value length must be at least 1 bytes", "is required",
	"value must contain at least 1 item(s)", "is required",
	"value is required", "is required",
	"value length must be between 1 and ", "is required, at most ",
	"value must contain between 1 and ", "is required, at most ",
	" runes, inclusive", " characters",
	" items, inclusive", " items",
)

// plain says the commonest rules the way people do.
func plain(reason string) string { return required.Replace(reason) }

// jsonName turns the Go name of a generated field ("OrganizationId",
// "Messages[0]") into its JSON name.
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

// maxRequestID bounds a caller's own request id.
const maxRequestID = 128

// RequestID returns a caller's request id when it is one (letters and digits of
// ASCII and "._:-", 1 to 128 of them, not like a key) and makes a new one otherwise:
// a UUIDv7 in base32hex, so that ids sort by their time and indexes of them grow at
// one end.
func RequestID(given string) string {
	if given != "" && len(given) <= maxRequestID && strings.IndexFunc(given, notInID) < 0 && !screen.IDLooksLikeKey(given) {
		return given
	}
	id, err := uuid.NewV7()
	if err != nil {
		id = uuid.New() // Only the order of ids is lost.
	}
	return "req_" + idEncoding.EncodeToString(id[:])
}

// notInID reports whether a character can't be part of a request id.
func notInID(r rune) bool {
	letter := r|0x20 >= 'a' && r|0x20 <= 'z'
	return !letter && (r < '0' || r > '9') && r != '.' && r != '_' && r != ':' && r != '-'
}

// idEncoding keeps the order of what it writes (RFC 4648, section 7).
var idEncoding = base32.HexEncoding.WithPadding(base32.NoPadding)
