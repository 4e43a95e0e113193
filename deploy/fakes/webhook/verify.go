package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// Verdict is the result of a check of an arrival's signature.
type Verdict string

// The verdicts. Unchecked means that the receiver has no secret of the mode.
const (
	Valid     Verdict = "valid"
	Invalid   Verdict = "invalid"
	Missing   Verdict = "missing"
	Unchecked Verdict = "unchecked"
)

const (
	signatureHeader = "X-Webhook-Signature"
	timestampHeader = "X-Webhook-Timestamp"
)

// Secrets holds the secrets of a sender, by what they sign; one that matches is enough.
type Secrets struct {
	// Organization signs "<timestamp>.<body>": X-Webhook-Signature is the hex HMAC-SHA256.
	Organization []string
	// Endpoint signs the body alone: "sha256=" and the hex HMAC-SHA256.
	Endpoint []string
}

// Verify checks an arrival against the secrets of the mode in which it is signed: a secret of one mode never passes
// for the other's.
func Verify(secrets Secrets, header http.Header, body []byte) Verdict {
	signature := header.Get(signatureHeader)
	digest, ofBody := strings.CutPrefix(signature, "sha256=")
	keys, signed := secrets.Organization, append([]byte(header.Get(timestampHeader)+"."), body...)
	if ofBody {
		keys, signed = secrets.Endpoint, body
	}
	switch {
	case len(secrets.Organization)+len(secrets.Endpoint) == 0:
		return Unchecked
	case signature == "" || !ofBody && header.Get(timestampHeader) == "":
		return Missing
	case len(keys) == 0:
		return Unchecked
	}
	given, err := hex.DecodeString(digest)
	if err != nil {
		return Invalid
	}
	for _, secret := range keys {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(signed)
		if hmac.Equal(mac.Sum(nil), given) {
			return Valid
		}
	}
	return Invalid
}
