// Package signing owns how a delivery proves its origin: the headers of both signing modes, the Standard Webhooks
// headers beside them, and where an organization's secrets and the service's own keys are read. The dispatcher uses it
// for each attempt.
package signing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
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

// The signatures of a delivery.
const (
	// SchemeSpec is X-Webhook-Signature, as the signing mode says. It is always included.
	SchemeSpec = "spec"
	// SchemeV1 is HMAC-SHA256 of Standard Webhooks, with each secret that has a suitable length.
	SchemeV1 = "v1"
	// SchemeV1a is Ed25519 of Standard Webhooks, with the service's own key.
	SchemeV1a = "v1a"
)

// DefaultSchemes returns the schemes of deliveries that ask for none.
func DefaultSchemes() []string { return []string{SchemeSpec, SchemeV1} }

// OrderSchemes returns the schemes that are asked for in a fixed order, SchemeSpec included.
func OrderSchemes(asked []string) []string {
	ordered := []string{SchemeSpec}
	for _, scheme := range []string{SchemeV1, SchemeV1a} {
		if slices.Contains(asked, scheme) {
			ordered = append(ordered, scheme)
		}
	}
	return ordered
}

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

// Signer signs messages. Secrets must hold at least one secret, the current one first.
type Signer struct {
	// Mode is a signing mode.
	Mode    string
	Secrets []secret.Value
	// Schemes are the signatures to make; empty for DefaultSchemes.
	Schemes []string
	// Key makes the signature of SchemeV1a; without it, there is none.
	Key *Key
}

// Headers returns the signature headers of a message. X-Webhook-Signature uses the first secret. The Standard Webhooks
// header lists a signature for each suitable secret, so that receivers may hold any of them during rotations, and then
// the asymmetric one; without any, its three headers are omitted.
func (s Signer) Headers(m Message) map[string]string {
	timestamp := strconv.FormatInt(m.At.Unix(), 10)
	headers := make(map[string]string, 5)
	first := []byte(s.Secrets[0].Reveal())
	if s.Mode == EndpointBody {
		headers[HeaderSignature] = "sha256=" + hex.EncodeToString(digest(first, m.Body))
	} else {
		headers[HeaderSignature] = hex.EncodeToString(digest(first, []byte(timestamp), []byte("."), m.Body))
		headers[HeaderTimestamp] = timestamp
	}
	if standard := s.standard([]byte(m.ID+"."+timestamp+"."), m.Body); len(standard) > 0 {
		headers[HeaderStandardID] = m.ID
		headers[HeaderStandardTimestamp] = timestamp
		headers[HeaderStandardSignature] = strings.Join(standard, " ")
	}
	return headers
}

// standard returns the Standard Webhooks signatures of prefix and body.
func (s Signer) standard(prefix, body []byte) []string {
	schemes := s.Schemes
	if len(schemes) == 0 {
		schemes = DefaultSchemes()
	}
	var signatures []string
	if slices.Contains(schemes, SchemeV1) {
		for _, one := range s.Secrets {
			if key, ok := standardKey(one.Reveal()); ok {
				signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(digest(key, prefix, body)))
			}
		}
	}
	if slices.Contains(schemes, SchemeV1a) && s.Key != nil {
		signatures = append(signatures, "v1a,"+base64.StdEncoding.EncodeToString(s.Key.sign(prefix, body)))
	}
	return signatures
}

func digest(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// V1Rule is the rule of secrets that SchemeV1 is made with, for errors and warnings.
const V1Rule = "v1 needs a secret of 24 to 64 bytes, as it is or in base64 after whsec_"

// SuitsV1 reports whether SchemeV1 can be made with a secret.
func SuitsV1(one secret.Value) bool {
	_, ok := standardKey(one.Reveal())
	return ok
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
