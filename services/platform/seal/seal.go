// Package seal encrypts the small secrets that a service stores in its own rows: a device's keys, a header that carries
// a credential. It uses AES-256-GCM (NIST SP 800-38D) with a key from a file. Each sealed text is bound to the service
// and to the object that owns it, so that a row copied to another place can't be opened there.
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
	version  = 1 // the first byte of a sealed text, authenticated like the rest
)

// Overhead is by how many bytes a sealed text is longer than the text: version, nonce and tag.
const Overhead = 1 + 12 + 16

// ErrOpen means that a text was not sealed with this key for this owner.
var ErrOpen = errors.New("seal: cannot open: wrong key, wrong owner or damaged text")

// Box seals and opens texts. It is safe for concurrent use.
type Box struct {
	aead    cipher.AEAD
	service string
}

// New returns a Box. key is 32 bytes in hex or base64; service is the name of the service that owns the rows. The error
// does not repeat the key.
func New(key secret.Value, service string) (*Box, error) {
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
	return &Box{aead, service}, nil
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

// Seal encrypts text for the object named owner.
func (b *Box) Seal(text []byte, owner string) []byte {
	return append([]byte{version}, b.aead.Seal(nil, nil, text, b.bound(owner))...) //nolint:gosec // This AEAD makes its own random nonce and takes none.
}

// Open returns the text sealed for owner, or ErrOpen.
func (b *Box) Open(sealed []byte, owner string) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != version {
		return nil, ErrOpen
	}
	text, err := b.aead.Open(nil, nil, sealed[1:], b.bound(owner))
	if err != nil {
		return nil, ErrOpen
	}
	return text, nil
}

// bound returns the additional authenticated data of a text.
func (b *Box) bound(owner string) []byte {
	return append([]byte{version}, "switchyard/"+b.service+":"+owner...)
}
