package push

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// Subscription acts as the browser: it holds the private keys of a subscription, whose public keys a page sends to
// its server.
type Subscription struct {
	private *ecdh.PrivateKey
	auth    []byte
	// serverKey is the only sender allowed, base64url; empty = any.
	serverKey string
}

// NewSubscription returns a subscription with new keys.
func NewSubscription(serverKey string) (*Subscription, error) {
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a subscription: %w", err)
	}
	auth := make([]byte, 16)
	// It never fails, by its contract.
	_, _ = rand.Read(auth)
	return &Subscription{private: private, auth: auth, serverKey: serverKey}, nil
}

// Keys returns p256dh and auth as PushSubscription.toJSON() returns them.
func (s *Subscription) Keys() (p256dh, auth string) {
	return base64.RawURLEncoding.EncodeToString(s.private.PublicKey().Bytes()), base64.RawURLEncoding.EncodeToString(s.auth)
}

const (
	saltSize   = 16
	pointSize  = 65
	headerSize = saltSize + 4 + 1 + pointSize
)

// Decrypt decrypts an aes128gcm message of one record (RFC 8188, RFC 8291).
func (s *Subscription) Decrypt(message []byte) ([]byte, error) {
	if len(message) < headerSize || message[saltSize+4] != pointSize {
		return nil, errors.New("the aes128gcm header is not that of a push message")
	}
	salt, point, record := message[:saltSize], message[saltSize+5:headerSize], message[headerSize:]
	sender, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return nil, fmt.Errorf("the sender's key: %w", err)
	}
	shared, err := s.private.ECDH(sender)
	if err != nil {
		return nil, fmt.Errorf("agree on a key: %w", err)
	}
	info := "WebPush: info\x00" + string(s.private.PublicKey().Bytes()) + string(point)
	secret, err := hkdf.Key(sha256.New, shared, s.auth, info, 32)
	if err != nil {
		return nil, fmt.Errorf("derive the secret: %w", err)
	}
	key, err := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, fmt.Errorf("derive the key: %w", err)
	}
	nonce, err := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, fmt.Errorf("derive the nonce: %w", err)
	}
	return openRecord(key, nonce, record)
}

// openRecord decrypts the last record: text, a delimiter 2, and zeros.
func openRecord(key, nonce, record []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("cipher mode: %w", err)
	}
	padded, err := aead.Open(nil, nonce, record, nil)
	if err != nil {
		return nil, errors.New("the message does not open with this subscription's keys")
	}
	text, found := bytes.CutSuffix(bytes.TrimRight(padded, "\x00"), []byte{2})
	if !found {
		return nil, errors.New("the record has no final delimiter")
	}
	return text, nil
}
