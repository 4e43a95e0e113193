// Package seal encrypts what a channel has to keep until it has sent, for it may
// hold a credential: a Slack URL, a device's keys. AES-256-GCM with a key from a
// file; each text is bound to the thing it belongs to, so that a row copied to
// another place can't be opened there.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"switchyard.dev/services/platform/secret"
)

const (
	keyBytes = 32
	version  = 1 // the first byte of a sealed text, bound like the rest
)

// ErrOpen says that a text was not sealed with this key for this thing.
var ErrOpen = errors.New("seal: cannot be opened")

// Box seals and opens. It is safe for concurrent use.
type Box struct{ aead cipher.AEAD }

// New takes a key of 32 bytes in hex or base64. The error does not repeat it.
func New(key secret.Value) (*Box, error) {
	raw := decodeKey(strings.TrimSpace(key.Reveal()))
	if len(raw) != keyBytes {
		return nil, errors.New("seal: the key must be 32 bytes in hex or base64")
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return &Box{aead}, nil
}

func decodeKey(text string) []byte {
	if raw, err := hex.DecodeString(text); err == nil {
		return raw
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return raw
}

// Seal encrypts text for the thing named owner.
func (b *Box) Seal(text []byte, owner string) []byte {
	return append([]byte{version}, b.aead.Seal(nil, nil, text, bound(owner))...) //nolint:gosec // This AEAD makes its own random nonce and takes none.
}

// Open gives the text back, or ErrOpen.
func (b *Box) Open(sealed []byte, owner string) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != version {
		return nil, ErrOpen
	}
	text, err := b.aead.Open(nil, nil, sealed[1:], bound(owner))
	if err != nil {
		return nil, ErrOpen
	}
	return text, nil
}

func bound(owner string) []byte { return append([]byte{version}, "switchyard/notify:"+owner...) }
