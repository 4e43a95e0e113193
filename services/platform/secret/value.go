package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Value is a secret string. The zero value means no secret.
//
// The text is held in a closure and not in a field: fmt and other printers reach unexported fields of a struct without
// calling methods, but not a closure's variables. It also makes == a compile error; use Equal.
type Value struct{ reveal func() string }

// New returns a Value that holds text. New("") is the zero Value.
func New(text string) Value {
	if text == "" {
		return Value{}
	}
	return Value{reveal: func() string { return text }}
}

// Reveal returns the secret itself. Call it only where the secret is sent or checked.
func (v Value) Reveal() string {
	if v.reveal == nil {
		return ""
	}
	return v.reveal()
}

// IsZero reports whether v holds no secret.
func (v Value) IsZero() bool { return v.reveal == nil }

// Equal reports whether two secrets are equal, in a time that depends only on their lengths.
func (v Value) Equal(other Value) bool {
	return subtle.ConstantTimeCompare([]byte(v.Reveal()), []byte(other.Reveal())) == 1
}

// String returns the fixed text.
func (v Value) String() string { return redacted }

// GoString returns the fixed text, for %#v.
func (v Value) GoString() string { return redacted }

// Format writes the fixed text for every verb, including %x and %q.
func (v Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue returns the fixed text, for slog.
func (v Value) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns the fixed text, for text encoders.
func (v Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns the fixed text, for encoding/json.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
