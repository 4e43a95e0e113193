// Package signing owns how a delivery proves its origin: the headers of both signing modes, the Standard Webhooks
// headers beside them, and where an organization's secrets are read. The dispatcher uses it for each attempt.
package signing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/platform/secret"
)

// The signing modes of the contract.
const (
	// OrgTimestamp signs `<timestamp>.<body>` with the organization's secret.
	OrgTimestamp = "org_timestamp"
	// EndpointBody signs the body with the endpoint's own secret.
	EndpointBody = "endpoint_body"
)

// The header names.
const (
	HeaderSignature = "X-Webhook-Signature"
	HeaderTimestamp = "X-Webhook-Timestamp"
	// The headers of Standard Webhooks 1.0.0.
	HeaderStandardID        = "Webhook-Id"
	HeaderStandardTimestamp = "Webhook-Timestamp"
	HeaderStandardSignature = "Webhook-Signature"
)

// minStandard and maxStandard bound a secret in Standard Webhooks, in bytes.
const minStandard, maxStandard = 24, 64

// StandardPrefix is the Standard Webhooks prefix of a secret in base64.
const StandardPrefix = "whsec_"

// Message is the signed content of an attempt.
type Message struct {
	// ID is the delivery's id, the same for all attempts.
	ID string
	// At is the time of this attempt.
	At   time.Time
	Body []byte
}

// Headers returns the signature headers of a message; secrets must hold at least one, the current one first.
// X-Webhook-Signature uses the first. The Standard Webhooks signature lists one per suitable secret, so that
// receivers may hold either during a rotation; without any, its three headers are omitted.
func Headers(mode string, secrets []secret.Value, m Message) map[string]string {
	timestamp := strconv.FormatInt(m.At.Unix(), 10)
	headers := make(map[string]string, 5)
	first := []byte(secrets[0].Reveal())
	if mode == EndpointBody {
		headers[HeaderSignature] = "sha256=" + hex.EncodeToString(digest(first, m.Body))
	} else {
		headers[HeaderSignature] = hex.EncodeToString(digest(first, []byte(timestamp), []byte("."), m.Body))
		headers[HeaderTimestamp] = timestamp
	}
	var standard []string
	for _, s := range secrets {
		if key, ok := standardKey(s.Reveal()); ok {
			sum := digest(key, []byte(m.ID+"."+timestamp+"."), m.Body)
			standard = append(standard, "v1,"+base64.StdEncoding.EncodeToString(sum))
		}
	}
	if len(standard) > 0 {
		headers[HeaderStandardID] = m.ID
		headers[HeaderStandardTimestamp] = timestamp
		headers[HeaderStandardSignature] = strings.Join(standard, " ")
	}
	return headers
}

func digest(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// standardKey returns the key that a Standard Webhooks library derives from a secret: the base64 after the prefix, or
// else the bytes themselves.
func standardKey(text string) ([]byte, bool) {
	key := []byte(text)
	if encoded, ok := strings.CutPrefix(text, StandardPrefix); ok {
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, false
		}
		key = decoded
	}
	return key, len(key) >= minStandard && len(key) <= maxStandard
}
