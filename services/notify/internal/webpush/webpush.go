// Package webpush owns the web push protocols: the encryption of messages (RFC 8291 over the aes128gcm coding of RFC
// 8188), the identification of the sender (VAPID, RFC 8292), the request (RFC 8030) and the meaning of its response.
// Package push calls it; it has no knowledge of storage or channels.
package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Sizes of the parts of a subscription, in bytes (RFC 8291, section 3).
const (
	pointSize = 65 // an uncompressed point of P-256
	authSize  = 16
)

// Subscription is a device that can be pushed to. All of it is a capability: anyone who has it can push to the device
// or decrypt pushes, so it prints none of its values.
type Subscription struct {
	endpoint Endpoint
	point    *ecdh.PublicKey
	raw      [pointSize]byte // the point's encoding, computed once
	auth     [authSize]byte
}

// NewSubscription parses the keys of a browser's subscription: p256dh is a point of P-256, auth 16 bytes, both in
// base64url. Errors name the key and its rule and never repeat a value.
func NewSubscription(endpoint Endpoint, p256dh, auth string) (Subscription, error) {
	point, err := decodeKey(p256dh)
	if err != nil {
		return Subscription{}, &KeyError{"p256dh", "must be base64url"}
	}
	secret, err := decodeKey(auth)
	if err != nil || len(secret) != authSize {
		return Subscription{}, &KeyError{"auth", "must be 16 bytes in base64url"}
	}
	return newSubscription(endpoint, point, secret)
}

func newSubscription(endpoint Endpoint, point, auth []byte) (Subscription, error) {
	s := Subscription{endpoint: endpoint, auth: [authSize]byte(auth)}
	var err error
	if s.point, err = ecdh.P256().NewPublicKey(point); err != nil {
		return Subscription{}, &KeyError{"p256dh", "must be an uncompressed point of P-256"}
	}
	s.raw = [pointSize]byte(point)
	return s, nil
}

// KeyError names the invalid key of a subscription, and the rule it violates.
type KeyError struct{ Key, Rule string }

func (e *KeyError) Error() string { return e.Key + " " + e.Rule }

// decodeKey accepts base64url with or without padding, as browsers differ.
func decodeKey(text string) ([]byte, error) {
	return base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
}

// Endpoint returns the endpoint of the device.
func (s Subscription) Endpoint() Endpoint { return s.endpoint }

// Format hides the subscription from every verb.
func (s Subscription) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[subscription]") }

// packed is the first byte of an encoded subscription.
const packed = 1

// Bytes returns the encoded subscription, to be sealed and stored.
func (s Subscription) Bytes() []byte {
	b := make([]byte, 0, 1+pointSize+authSize+len(s.endpoint.url))
	b = append(b, packed)
	b = append(b, s.raw[:]...)
	b = append(b, s.auth[:]...)
	return append(b, s.endpoint.url...)
}

var errBytes = errors.New("webpush: not the bytes of a subscription")

// FromBytes decodes what Bytes returned.
func FromBytes(b []byte) (Subscription, error) {
	const head = 1 + pointSize + authSize
	if len(b) < head || b[0] != packed {
		return Subscription{}, errBytes
	}
	endpoint, err := endpointOf(string(b[head:]))
	if err != nil {
		return Subscription{}, errBytes
	}
	return newSubscription(endpoint, b[1:1+pointSize], b[1+pointSize:head])
}
