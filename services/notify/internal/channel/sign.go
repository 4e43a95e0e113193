package channel

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/platform/secret"
)

// minStandard and maxStandard bound a secret in Standard Webhooks 1.0.0, in bytes.
const minStandard, maxStandard = 24, 64

// standardPrefix is the Standard Webhooks prefix of a secret in base64.
const standardPrefix = "whsec_"

// signed returns the headers of a webhook in the mode org_timestamp: an HMAC-SHA-256 of `<timestamp>.<body>`, and the
// Standard Webhooks headers if the secret is suitable. The id is the notification's, the same for each attempt.
func signed(key secret.Value, t Task, now time.Time, body []byte) http.Header {
	id, timestamp := t.Notification.String(), strconv.FormatInt(now.Unix(), 10)
	header := http.Header{
		"Content-Type":        {"application/json"},
		"X-Webhook-Id":        {id},
		"X-Webhook-Event":     {eventType},
		"X-Webhook-Attempt":   {strconv.Itoa(t.Number)},
		"X-Webhook-Timestamp": {timestamp},
		"X-Webhook-Signature": {hex.EncodeToString(digest([]byte(key.Reveal()), []byte(timestamp), []byte("."), body))},
	}
	if raw, ok := standardKey(key.Reveal()); ok {
		header.Set("Webhook-Id", id)
		header.Set("Webhook-Timestamp", timestamp)
		header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(digest(raw, []byte(id+"."+timestamp+"."), body)))
	}
	return header
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
	if encoded, ok := strings.CutPrefix(text, standardPrefix); ok {
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, false
		}
		key = decoded
	}
	return key, len(key) >= minStandard && len(key) <= maxStandard
}
