// Package sealing encrypts credentials to the gateway: HPKE (RFC 9180, base mode), bound to one organization and one
// provider, so that a sealed credential can't be used anywhere else. Package byok opens sealed credentials; `gateway
// byok` generates keys and seals.
package sealing

import (
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"switchyard.dev/services/platform/secret"
)

// InfoTemplate is the HPKE info with placeholders. Providers contain no colon, so that no two pairs have the same info.
const InfoTemplate = "switchyard/byok/v1:{organization_id}:{provider}"

// Info returns the HPKE info that binds a sealed credential to an organization and a provider.
func Info(organization, provider string) []byte {
	return []byte(strings.NewReplacer("{organization_id}", organization, "{provider}", provider).Replace(InfoTemplate))
}

// Names of the KEMs that keys may have.
const (
	X25519         = "x25519"
	MLKEM768X25519 = "mlkem768-x25519" // also resists attacks by quantum computers
)

func kems(name string) (hpke.KEM, error) {
	switch name {
	case X25519:
		return hpke.DHKEM(ecdh.X25519()), nil
	case MLKEM768X25519:
		return hpke.MLKEM768X25519(), nil
	}
	return nil, fmt.Errorf("KEM %q: want %s or %s", name, X25519, MLKEM768X25519)
}

func kdf() hpke.KDF { return hpke.HKDFSHA256() }

func aead() hpke.AEAD { return hpke.AES256GCM() }

// Public is a public key to seal to.
type Public struct {
	// ID is a hash of the KEM and the key.
	ID string
	// Key is the key as its KEM serializes it.
	Key []byte
	// KEM, KDF and AEAD are the numbers of RFC 9180.
	KEM, KDF, AEAD uint16
}

// Seal encrypts a credential for an organization and a provider, given its canonical name. It returns HPKE's enc,
// followed by the ciphertext.
func (p Public) Seal(organization, provider string, credential secret.Value) ([]byte, error) {
	if p.KDF != kdf().ID() || p.AEAD != aead().ID() {
		return nil, errors.New("seal: the key is for another cipher suite")
	}
	kem, err := hpke.NewKEM(p.KEM)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	key, err := kem.NewPublicKey(p.Key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	text, err := hpke.Seal(key, kdf(), aead(), Info(organization, provider), []byte(credential.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return text, nil
}

// Key is a private key with the time of its generation.
type Key struct {
	Public

	Created time.Time
	kem     string
	private hpke.PrivateKey
}

// Generate generates a key.
func Generate(kem string, now time.Time) (Key, error) {
	of, err := kems(kem)
	if err != nil {
		return Key{}, err
	}
	private, err := of.GenerateKey()
	if err != nil {
		return Key{}, fmt.Errorf("generate sealing key: %w", err)
	}
	return newKey(kem, private, now.UTC().Truncate(time.Second)), nil
}

func newKey(kem string, private hpke.PrivateKey, created time.Time) Key {
	public := Public{Key: private.PublicKey().Bytes(), KEM: private.KEM().ID(), KDF: kdf().ID(), AEAD: aead().ID()}
	sum := sha256.Sum256(append([]byte{byte(public.KEM >> 8), byte(public.KEM)}, public.Key...))
	public.ID = hex.EncodeToString(sum[:8])
	return Key{Public: public, Created: created, kem: kem, private: private}
}

// format is the first field of a key file.
const format = "switchyard-sealing-key-v1"

// Text returns the key as the line of a key file: format, KEM, time and private key.
func (k Key) Text() (secret.Value, error) {
	private, err := k.private.Bytes()
	if err != nil {
		return secret.Value{}, fmt.Errorf("write sealing key: %w", err)
	}
	fields := []string{format, k.kem, k.Created.Format(time.RFC3339), base64.StdEncoding.EncodeToString(private)}
	return secret.New(strings.Join(fields, " ")), nil
}

// Parse parses the line of a key file. Its errors don't repeat the key.
func Parse(line secret.Value) (Key, error) {
	fields := strings.Fields(line.Reveal())
	if len(fields) != 4 || fields[0] != format {
		return Key{}, errors.New("sealing key: want one line made by `gateway byok keygen`")
	}
	kem, err := kems(fields[1])
	if err != nil {
		return Key{}, errors.New("sealing key: unknown KEM")
	}
	created, err := time.Parse(time.RFC3339, fields[2])
	if err != nil {
		return Key{}, errors.New("sealing key: the time is not one of RFC 3339")
	}
	text, err := base64.StdEncoding.Strict().DecodeString(fields[3])
	if err != nil {
		return Key{}, errors.New("sealing key: the private key is not base64")
	}
	private, err := kem.NewPrivateKey(text)
	if err != nil {
		return Key{}, errors.New("sealing key: the private key does not fit its KEM")
	}
	return newKey(fields[1], private, created.UTC()), nil
}

func (k Key) open(organization, provider string, sealed []byte) (secret.Value, error) {
	text, err := hpke.Open(k.private, kdf(), aead(), Info(organization, provider), sealed)
	if err != nil {
		return secret.Value{}, ErrInvalid
	}
	return secret.New(string(text)), nil
}
