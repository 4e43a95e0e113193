package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// Verdict is what a check of an arrival's signature gave.
type Verdict string

// The verdicts. Unchecked means that the receiver knows no secret.
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

// Verify checks an arrival against the secrets of its sender; one that fits is
// enough. The signature is the hex HMAC-SHA256 of "<timestamp>.<body>", or
// "sha256=" and the hex HMAC-SHA256 of the body where the endpoint has a secret of its own.
func Verify(secrets []string, header http.Header, body []byte) Verdict {
	signature := header.Get(signatureHeader)
	switch {
	case len(secrets) == 0:
		return Unchecked
	case signature == "":
		return Missing
	}
	signed := append([]byte(header.Get(timestampHeader)+"."), body...)
	digest, ofBody := strings.CutPrefix(signature, "sha256=")
	if ofBody {
		signed = body
	} else if header.Get(timestampHeader) == "" {
		return Missing
	}
	given, err := hex.DecodeString(digest)
	if err != nil {
		return Invalid
	}
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(signed)
		if hmac.Equal(mac.Sum(nil), given) {
			return Valid
		}
	}
	return Invalid
}
