package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Value is a secret string. Its zero value is no secret.
//
// The text sits in a closure, not in a field: fmt and other printers reach the
// unexported fields of a struct without calling methods, but not a closure's.
// It also makes == a compile error; use Equal.
type Value struct{ reveal func() string }

// New hides text. New("") is the zero Value.
func New(text string) Value {
	if text == "" {
		return Value{}
	}
	return Value{reveal: func() string { return text }}
}

// Reveal gives the secret itself, for the one place that sends or checks it.
func (v Value) Reveal() string {
	if v.reveal == nil {
		return ""
	}
	return v.reveal()
}

// IsZero reports whether there is no secret.
func (v Value) IsZero() bool { return v.reveal == nil }

// Equal reports whether two secrets are the same, in a time that depends on their lengths only.
func (v Value) Equal(other Value) bool {
	return subtle.ConstantTimeCompare([]byte(v.Reveal()), []byte(other.Reveal())) == 1
}

// String hides the secret.
func (v Value) String() string { return redacted }

// GoString hides the secret from %#v.
func (v Value) GoString() string { return redacted }

// Format hides the secret from every verb, %x and %q included.
func (v Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the secret from slog.
func (v Value) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret from text encoders.
func (v Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON hides the secret from encoding/json.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
