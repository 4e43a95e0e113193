package decision

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"switchyard.dev/services/platform/secret"
)

const (
	// nonceTime is how long the form of a page may be sent.
	nonceTime = 15 * time.Minute
	// The parts of a nonce in bytes: when it ends, what no other has, and the MAC over both, the token and the version.
	endSize, randomSize = 8, 16
	nonceSize           = endSize + randomSize + sha256.Size
)

// Nonces makes and checks what a form of the page has to send back: only who was shown a page can decide from it. It is safe
// for concurrent use.
type Nonces struct{ key []byte }

// NewNonces returns Nonces under a key that is derived from the pepper of the product keys (RFC 5869), so that every replica
// takes those of the others.
func NewNonces(pepper secret.Value) (*Nonces, error) {
	key, err := hkdf.Key(sha256.New, []byte(pepper.Reveal()), nil, "switchyard/edge: nonces of decisions", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the key of nonces: %w", err)
	}
	return &Nonces{key}, nil
}

// Make returns a nonce for a token and the version of what its page shows.
func (n *Nonces) Make(token, version string, now time.Time) string {
	raw := binary.BigEndian.AppendUint64(make([]byte, 0, nonceSize), uint64(now.Add(nonceTime).Unix()))
	var random [randomSize]byte
	_, _ = rand.Read(random[:]) // It never fails.
	raw = append(raw, random[:]...)
	return base64.RawURLEncoding.EncodeToString(append(raw, n.mac(raw, token, version)...))
}

// Check reports whether a nonce was made for a token and a version, and has not ended.
func (n *Nonces) Check(nonce, token, version string, now time.Time) bool {
	if len(nonce) != base64.RawURLEncoding.EncodedLen(nonceSize) {
		return false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(nonce)
	if err != nil || len(raw) != nonceSize {
		return false
	}
	head, mac := raw[:endSize+randomSize], raw[endSize+randomSize:]
	if !hmac.Equal(mac, n.mac(head, token, version)) {
		return false
	}
	return uint64(now.Unix()) < binary.BigEndian.Uint64(head)
}

// mac returns the MAC of the head of a nonce with what it is bound to.
func (n *Nonces) mac(head []byte, token, version string) []byte {
	mac := hmac.New(sha256.New, n.key)
	_, _ = mac.Write(head) // It never fails, and has one length.
	_, _ = fmt.Fprintf(mac, "%q %q", token, version)
	return mac.Sum(nil)
}
