// Package ticket makes texts that the gateway gives to a caller and takes back: what it would otherwise have to store is
// sealed in them, so that every replica reads it. A ticket is of use for its own purpose and organization alone, until it
// expires. Who may use it, and how often, is in what is sealed and for its user to check. Packages session and toolcall
// use it.
package ticket

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Max bounds a ticket, in bytes.
const Max = 256 << 10

// ErrInvalid is the error of a text that is no ticket, or one of another purpose or organization, or has expired.
var ErrInvalid = errors.New("the ticket is none, is for something else, or has expired")

// Sealer seals texts to an organization and a name; see trace.Keys.
type Sealer interface {
	Seal(organization, name string, text []byte) (key string, sealed []byte, err error)
	Open(organization, name, key string, sealed []byte) ([]byte, error)
}

// Tickets seals and opens tickets. Safe for concurrent use.
type Tickets struct {
	Sealer Sealer
	// Now returns the time; nil is time.Now.
	Now func() time.Time
}

// minPurpose is longer than a UUID in bytes, as Sealer demands of texts that are no traces.
const minPurpose = 17

// expiry is the member that every ticket has. What is sealed must have none of its name.
type expiry struct {
	Expires int64 `json:"e"`
}

// Seal returns a ticket of visible ASCII. v is a struct whose members have other names than e; expires is kept in seconds.
func (t *Tickets) Seal(organization, purpose string, v any, expires time.Time) (string, error) {
	if len(purpose) < minPurpose {
		return "", fmt.Errorf("seal ticket: the purpose has %d bytes, want %d or more", len(purpose), minPurpose)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("seal ticket: %w", err)
	}
	if len(text) == 0 || text[0] != '{' {
		return "", errors.New("seal ticket: want an object")
	}
	end, err := json.Marshal(expiry{expires.Unix()})
	if err != nil {
		return "", fmt.Errorf("seal ticket: %w", err)
	}
	if string(text) == "{}" {
		text = end
	} else {
		text = append(append(text[:len(text)-1], ','), end[1:]...)
	}
	key, sealed, err := t.Sealer.Seal(organization, purpose, text)
	if err != nil {
		return "", fmt.Errorf("seal ticket: %w", err)
	}
	out := key + "." + base64.RawURLEncoding.EncodeToString(sealed)
	if len(out) > Max {
		return "", errors.New("seal ticket: it is too large")
	}
	return out, nil
}

// Open reads a ticket into v, and returns when it expires. The error is ErrInvalid.
func (t *Tickets) Open(organization, purpose, text string, v any) (expires time.Time, err error) {
	if len(text) > Max || len(purpose) < minPurpose {
		return time.Time{}, ErrInvalid
	}
	key, rest, _ := strings.Cut(text, ".")
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil {
		return time.Time{}, ErrInvalid
	}
	plain, err := t.Sealer.Open(organization, purpose, key, sealed)
	if err != nil {
		return time.Time{}, ErrInvalid
	}
	var end expiry
	if json.Unmarshal(plain, &end) != nil || json.Unmarshal(plain, v) != nil {
		return time.Time{}, ErrInvalid
	}
	now := time.Now
	if t.Now != nil {
		now = t.Now
	}
	if expires = time.Unix(end.Expires, 0); !now().Before(expires) {
		return time.Time{}, ErrInvalid
	}
	return expires, nil
}
