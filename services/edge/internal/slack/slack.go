// Package slack reads what Slack sends when a person presses a button of a message, once its signature is verified, and
// answers that person alone.
package slack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/platform/secret"
)

// Headers of a signed request.
const (
	HeaderSignature = "X-Slack-Signature"
	HeaderTimestamp = "X-Slack-Request-Timestamp"
)

const (
	// MaxBody bounds a request's body in bytes.
	MaxBody = 256 << 10
	// maxAge is how far a request's time may be from the present one.
	maxAge = 5 * time.Minute
	// maxSecrets is how many secrets are valid at once: the old and the new one of a rotation. minSecret is in bytes.
	maxSecrets, minSecret = 2, 16
)

// ErrSignature refuses a request; it doesn't say why.
var ErrSignature = errors.New("slack: the request has no valid signature")

// Verifier verifies the signatures of requests. It is safe for concurrent use.
type Verifier struct{ secrets *secret.Cached[secrets] }

// secrets are the parsed signing secrets, or what is wrong with their file.
type secrets struct {
	keys [][]byte
	err  error
}

// NewVerifier returns a Verifier with the signing secrets of a file: one a line, two while they are rotated. The file is read
// again when it changes. It fails if the file can't be used.
func NewVerifier(file secret.File) (*Verifier, error) {
	v := &Verifier{secret.NewCached(file, readSecrets)}
	_, err := v.keys()
	return v, err
}

func readSecrets(text secret.Value) secrets {
	var keys [][]byte
	for line := range strings.Lines(text.Reveal()) {
		if line = strings.TrimSpace(line); line != "" {
			keys = append(keys, []byte(line))
		}
		if len(line) > 0 && len(line) < minSecret || len(keys) > maxSecrets {
			return secrets{err: errors.New("must have one or two lines, each a signing secret of 16 bytes or more")}
		}
	}
	if len(keys) == 0 {
		return secrets{err: errors.New("must have one or two lines, each a signing secret of 16 bytes or more")}
	}
	return secrets{keys: keys}
}

func (v *Verifier) keys() ([][]byte, error) {
	found, _, err := v.secrets.Read()
	return found.keys, errors.Join(err, found.err)
}

// Verify returns nil if Slack has signed the body, not longer than five minutes ago, ErrSignature if not, and another error
// if the secrets can't be read. Signatures are compared in constant time.
func (v *Verifier) Verify(h http.Header, body []byte, now time.Time) error {
	keys, err := v.keys()
	if err != nil {
		return err
	}
	times, signatures := h.Values(HeaderTimestamp), h.Values(HeaderSignature)
	if len(times) != 1 || len(signatures) != 1 || len(times[0]) > 20 {
		return ErrSignature
	}
	at, err := strconv.ParseInt(times[0], 10, 64)
	if err != nil || at < 0 {
		return ErrSignature
	}
	if age := now.Unix() - at; age > int64(maxAge/time.Second) || age < -int64(maxAge/time.Second) {
		return ErrSignature
	}
	text, ok := strings.CutPrefix(signatures[0], "v0=")
	given, err := hex.DecodeString(text)
	if !ok || err != nil || len(given) != sha256.Size {
		return ErrSignature
	}
	good := false
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte("v0:" + times[0] + ":"))
		_, _ = mac.Write(body)
		good = hmac.Equal(mac.Sum(nil), given) || good
	}
	if !good {
		return ErrSignature
	}
	return nil
}
