// Package webpushtest makes the keys that tests of web push need: those of the service
// and those of a browser. Only tests import it.
package webpushtest

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"testing"

	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/platform/secret"
)

// Keys are VAPID keys that don't change. They serve as a source of keys.
type Keys struct{ keys webpush.Keys }

// NewKeys returns two new keys; the second counts as the older one.
func NewKeys(tb testing.TB) Keys {
	tb.Helper()
	var lines []secret.Value
	for range 2 {
		_, private, err := webpush.GenerateKey()
		if err != nil {
			tb.Fatal(err)
		}
		lines = append(lines, private)
	}
	keys, err := webpush.ParseKeys(lines)
	if err != nil {
		tb.Fatal(err)
	}
	return Keys{keys}
}

// Keys returns all of them, the current one first.
func (k Keys) Keys() webpush.Keys { return k.keys }

// BrowserKeys returns the keys of a new subscription as a browser gives them. auth is
// its secret of 16 bytes.
func BrowserKeys(tb testing.TB, auth []byte) map[string]string {
	tb.Helper()
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return map[string]string{
		"p256dh": base64.RawURLEncoding.EncodeToString(private.PublicKey().Bytes()),
		"auth":   base64.RawURLEncoding.EncodeToString(auth),
	}
}
