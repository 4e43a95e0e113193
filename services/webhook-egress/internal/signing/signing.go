// Package signing owns how a delivery proves where it comes from: the headers
// of both signing modes, the Standard Webhooks headers beside them, and where
// an organization's secrets are read. The dispatcher asks it for each attempt.
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

// The modes of the contract.
const (
	// OrgTimestamp signs `<timestamp>.<body>` with the organization's secret.
	OrgTimestamp = "org_timestamp"
	// EndpointBody signs the body with the endpoint's own secret.
	EndpointBody = "endpoint_body"
)

// Header names.
const (
	HeaderSignature = "X-Webhook-Signature"
	HeaderTimestamp = "X-Webhook-Timestamp"
	// Of Standard Webhooks 1.0.0.
	HeaderStandardID        = "Webhook-Id"
	HeaderStandardTimestamp = "Webhook-Timestamp"
	HeaderStandardSignature = "Webhook-Signature"
)

// Lengths of a secret that Standard Webhooks allows, in bytes.
const minStandard, maxStandard = 24, 64

// StandardPrefix is what it writes before a secret in base64.
const StandardPrefix = "whsec_"

// Message is what an attempt sends.
type Message struct {
	// ID is the delivery's, the same over all attempts.
	ID string
	// At is the time of this attempt.
	At   time.Time
	Body []byte
}

// Headers signs a message; secrets must hold one or more, the current first.
// X-Webhook-Signature is made with the first. The Standard Webhooks signature
// lists one per secret that is fit for it, so that receivers may hold either
// while a secret is replaced; without any, its three headers are left out.
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

// standardKey is the key that a Standard Webhooks library makes of a secret:
// base64 after its prefix, else the bytes themselves.
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
