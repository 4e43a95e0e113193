package apikey

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"hash"
	"sync"

	"switchyard.dev/services/platform/secret"
)

// Digest is the stored form of a key: its HMAC-SHA-256 under the pepper. Without the pepper, which is in no database,
// a stolen table does not even reveal whether a key is in it.
type Digest [sha256.Size]byte

// minPepper is in bytes: the strength of the MAC (RFC 2104, section 3).
const minPepper = sha256.Size

// Pepper computes digests. It is safe for concurrent use.
type Pepper struct{ pool sync.Pool }

// scratch holds buffers that would escape through the hash interface otherwise.
type scratch struct {
	mac hash.Hash
	in  []byte
	out [sha256.Size]byte
}

// NewPepper returns a Pepper with the secret, at least 32 bytes, that all replicas share.
func NewPepper(pepper secret.Value) (*Pepper, error) {
	if len(pepper.Reveal()) < minPepper {
		return nil, errors.New("the key pepper must have 32 bytes or more")
	}
	return &Pepper{pool: sync.Pool{New: func() any {
		return &scratch{mac: hmac.New(sha256.New, []byte(pepper.Reveal()))}
	}}}, nil
}

// Digest returns the digest of a key's text. It does not allocate once warm.
func (p *Pepper) Digest(text string) Digest {
	s, _ := p.pool.Get().(*scratch)
	s.mac.Reset()
	s.in = append(s.in[:0], text...)
	_, _ = s.mac.Write(s.in)
	s.mac.Sum(s.out[:0])
	digest := Digest(s.out)
	clear(s.in)
	p.pool.Put(s)
	return digest
}
