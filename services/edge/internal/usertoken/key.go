package usertoken

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
)

// publishLead is how long a new key is published before it signs: every replica knows it by then.
const publishLead = 10 * time.Second

// PublicKey is what verifies the tokens of a key pair.
type PublicKey struct {
	ID  string
	Key ed25519.PublicKey
	// SignsFrom is when the pair begins to sign; the next pair's is when it ends.
	SignsFrom time.Time
}

// SigningKey is a key pair whose seed (RFC 8032, section 5.1.5) is sealed.
type SigningKey struct {
	PublicKey

	SealedSeed []byte
}

// NewBox returns the box that seals seeds, under a key that is derived from the pepper of the product keys (RFC 5869):
// the two secrets protect the same table space and have the same holders.
func NewBox(pepper secret.Value) (*seal.Box, error) {
	key, err := hkdf.Key(sha256.New, []byte(pepper.Reveal()), nil, "switchyard/edge: seeds of signing keys", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the sealing key: %w", err)
	}
	return seal.New(secret.New(hex.EncodeToString(key)), "edge")
}

// newKey returns a new key pair.
func newKey(box *seal.Box, signsFrom time.Time) (SigningKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return SigningKey{}, fmt.Errorf("make a signing key: %w", err)
	}
	id := "sig_" + strings.ToLower(rand.Text())
	return SigningKey{PublicKey{id, public, signsFrom}, box.Seal(private.Seed(), id)}, nil
}

// signer returns the newest key whose time has come, false if there is none. keys are in the order of SignsFrom.
func signer(keys []SigningKey, now time.Time) (SigningKey, bool) {
	for _, key := range slices.Backward(keys) {
		if !key.SignsFrom.After(now) {
			return key, true
		}
	}
	return SigningKey{}, false
}

// ends returns when the last token of a key expires whose successor begins to sign at a moment.
func ends(successor time.Time) time.Time { return successor.Add(MaxLife + skew) }

// outlived returns the ids of keys whose tokens have all expired. keys are in the order of SignsFrom.
func outlived(keys []SigningKey, now time.Time) (ids []string) {
	for i := range len(keys) - 1 {
		if now.After(ends(keys[i+1].SignsFrom)) {
			ids = append(ids, keys[i].ID)
		}
	}
	return ids
}

// sign returns the token of a payload.
func (k SigningKey) sign(box *seal.Box, payload []byte) (secret.Value, error) {
	seed, err := box.Open(k.SealedSeed, k.ID)
	if err != nil {
		return secret.Value{}, fmt.Errorf("open signing key %s: %w", k.ID, err)
	}
	options := (&jose.SignerOptions{}).WithType(typ).WithHeader("kid", k.ID)
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: ed25519.NewKeyFromSeed(seed)}, options)
	if err != nil {
		return secret.Value{}, fmt.Errorf("sign token: %w", err)
	}
	signed, err := s.Sign(payload)
	if err != nil {
		return secret.Value{}, fmt.Errorf("sign token: %w", err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		return secret.Value{}, fmt.Errorf("sign token: %w", err)
	}
	return secret.New(prefix + text), nil
}

// keySet returns the JSON Web Key Set of keys (RFC 7517, RFC 8037).
func keySet(keys []PublicKey) jose.JSONWebKeySet {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.Key, KeyID: k.ID, Algorithm: string(jose.EdDSA), Use: "sig"})
	}
	return set
}
