// Package goreceiver verifies webhooks with the standard library.
package goreceiver

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// tolerance is how far the sender's and the receiver's time may be apart.
const tolerance = 5 * time.Minute

// Organization reports whether X-Webhook-Signature is that of an organization's secret (signing mode org_timestamp).
func Organization(secret string, header http.Header, body []byte, now time.Time) bool {
	timestamp := header.Get("X-Webhook-Timestamp")
	expected := hex.EncodeToString(digest([]byte(secret), []byte(timestamp+"."), body))
	return recent(timestamp, now) && hmac.Equal([]byte(expected), []byte(header.Get("X-Webhook-Signature")))
}

// Endpoint reports whether X-Webhook-Signature is that of an endpoint's own secret (signing mode endpoint_body).
func Endpoint(secret string, header http.Header, body []byte) bool {
	expected := "sha256=" + hex.EncodeToString(digest([]byte(secret), body))
	return hmac.Equal([]byte(expected), []byte(header.Get("X-Webhook-Signature")))
}

// Standard reports whether webhook-signature has a signature of key: a secret (v1), or a public key with whpk_ (v1a).
func Standard(key string, header http.Header, body []byte, now time.Time) bool {
	timestamp := header.Get("Webhook-Timestamp")
	signed := append([]byte(header.Get("Webhook-Id")+"."+timestamp+"."), body...)
	if !recent(timestamp, now) {
		return false
	}
	for part := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		version, encoded, _ := strings.Cut(part, ",")
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			continue
		}
		public, asymmetric := strings.CutPrefix(key, "whpk_")
		if asymmetric && version == "v1a" && verify(public, signed, signature) {
			return true
		}
		if !asymmetric && version == "v1" && hmac.Equal(digest(secretBytes(key), signed), signature) {
			return true
		}
	}
	return false
}

func recent(timestamp string, now time.Time) bool {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	return err == nil && now.Sub(time.Unix(seconds, 0)).Abs() <= tolerance
}

func digest(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// secretBytes returns what the base64 after whsec_ means, or the bytes of a secret without it.
func secretBytes(secret string) []byte {
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		raw, _ := base64.StdEncoding.DecodeString(encoded)
		return raw
	}
	return []byte(secret)
}

func verify(public string, signed, signature []byte) bool {
	key, err := base64.StdEncoding.DecodeString(public)
	return err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, signed, signature)
}
