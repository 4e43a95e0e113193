package signing

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"switchyard.dev/services/platform/secret"
)

// The Standard Webhooks prefixes of Ed25519 keys in base64.
const (
	PrivatePrefix = "whsk_"
	PublicPrefix  = "whpk_"
)

// maxKeys bounds the keys of a file.
const maxKeys = 16

// Key is an Ed25519 key that signs deliveries.
type Key struct {
	private ed25519.PrivateKey
	// X is the public key in base64url, ID the key's thumbprint (RFC 7638 with the members of RFC 8037, appendix A.3).
	X, ID string
	// Public is the public key in the form of Standard Webhooks.
	Public string
}

func newKey(private ed25519.PrivateKey) *Key {
	public := bytes.Clone(private[ed25519.SeedSize:])
	x := base64.RawURLEncoding.EncodeToString(public)
	thumbprint := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	return &Key{
		private: private, X: x, ID: base64.RawURLEncoding.EncodeToString(thumbprint[:]),
		Public: PublicPrefix + base64.StdEncoding.EncodeToString(public),
	}
}

func (k *Key) sign(parts ...[]byte) []byte { return ed25519.Sign(k.private, slices.Concat(parts...)) }

// ParseKeys reads private keys in the form of Standard Webhooks, one per line, the one that signs first: `whsk_` and the
// base64 of a seed of 32 bytes, or of seed and public key. Errors name the line and don't repeat it.
func ParseKeys(text string) ([]*Key, error) {
	var keys []*Key
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		private := parseKey(line)
		switch {
		case private == nil:
			return nil, fmt.Errorf("line %d: want %s and the base64 of an Ed25519 key of 32 or 64 bytes", number, PrivatePrefix)
		case len(keys) == maxKeys:
			return nil, fmt.Errorf("line %d: want %d keys at most", number, maxKeys)
		}
		keys = append(keys, newKey(private))
	}
	if len(keys) == 0 {
		return nil, errors.New("want one key or more")
	}
	return keys, nil
}

// parseKey returns nil for a text that is no key.
func parseKey(text string) ed25519.PrivateKey {
	encoded, ok := strings.CutPrefix(text, PrivatePrefix)
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return nil
	}
	if len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
		return nil
	}
	private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if len(raw) == ed25519.PrivateKeySize && !bytes.Equal(raw, private) {
		return nil
	}
	return private
}

// KeySet holds the keys of a file, which is read again when it changes. It is safe for concurrent use. A nil KeySet has
// no keys.
type KeySet struct {
	cached *secret.Cached[parsedKeys]
	log    *slog.Logger
}

type parsedKeys struct {
	keys []*Key
	err  error
}

// OpenKeys returns the keys of a file, or nil if file is empty. It fails if the file can't be read.
func OpenKeys(file secret.File, log *slog.Logger) (*KeySet, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // No file is not an error: there are no keys.
	}
	s := &KeySet{log: log, cached: secret.NewCached(file, func(text secret.Value) parsedKeys {
		keys, err := ParseKeys(text.Reveal())
		return parsedKeys{keys, err}
	})}
	parsed, _, err := s.cached.Read()
	return s, errors.Join(err, parsed.err)
}

// Current returns the key that signs, or nil if there is none.
func (s *KeySet) Current(ctx context.Context) *Key {
	keys := s.Keys(ctx)
	if len(keys) == 0 {
		return nil
	}
	return keys[0]
}

// Keys returns all keys, the one that signs first. It returns none while the file can't be read, which is logged once.
func (s *KeySet) Keys(ctx context.Context) []*Key {
	if s == nil {
		return nil
	}
	parsed, changed, err := s.cached.Read()
	if err = errors.Join(err, parsed.err); err != nil && changed {
		s.log.WarnContext(ctx, "the signing keys cannot be read", slog.String("error", err.Error()))
	}
	return parsed.keys
}
