package rpc

import (
	"crypto/rand"
	"strings"
	"unicode"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
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
		path = append(path, jsonName(broken.Field()))
		if broken.Cause() == nil {
			return apierr.Invalid(strings.Join(path, "."), plain(broken.Reason()))
		}
		err = broken.Cause()
	}
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

// RequestID keeps a caller's request id when it is one (printable ASCII, at
// most 128 characters) and makes a new one otherwise.
func RequestID(given string) string {
	if given != "" && len(given) <= maxRequestID && caller.Printable(given) {
		return given
	}
	return "req_" + rand.Text()
}
