package trace

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/google/uuid"

	"switchyard.dev/services/platform/secret"
)

// MinSecret is the length of the shortest secret that contents are sealed with, in bytes.
const MinSecret = 32

// errKey is the error of a content whose key is no longer in the file.
var errKey = errors.New("its key is not in the key file")

// Keys seal contents (AES-256-GCM, NIST SP 800-38D). The first line of the file seals, every line opens. The file may
// be replaced while the service runs. Safe for concurrent use.
type Keys struct {
	file secret.File

	mu    sync.Mutex
	stat  fs.FileInfo
	first string
	named map[string][]byte
	// sealers are the ciphers of the first secret, by organization.
	sealers map[string]cipher.AEAD
}

// maxSealers bounds the number of ciphers that are kept.
const maxSealers = 1024

// NewKeys returns the keys of a file, or an error where it can't be read.
func NewKeys(file secret.File) (*Keys, error) {
	k := &Keys{file: file}
	return k, k.read()
}

// read reads the file if it has changed since the last time. After an error the keys stay as they are.
func (k *Keys) read() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.readLocked()
}

func (k *Keys) readLocked() error {
	stat, err := os.Stat(string(k.file))
	if err != nil {
		return fmt.Errorf("trace keys: %w", err)
	}
	if k.stat != nil && os.SameFile(k.stat, stat) && k.stat.ModTime().Equal(stat.ModTime()) && k.stat.Size() == stat.Size() {
		return nil
	}
	lines, err := k.file.Lines()
	if err != nil {
		return fmt.Errorf("trace keys: %w", err)
	}
	first, named := "", make(map[string][]byte)
	for i, line := range lines {
		text := []byte(line.Reveal())
		if len(text) < MinSecret {
			return fmt.Errorf("trace keys: secret %d has %d bytes, want %d or more", i+1, len(text), MinSecret)
		}
		name, err := hkdf.Key(sha256.New, text, nil, "name of a trace key", 8)
		if err != nil {
			return fmt.Errorf("trace keys: %w", err)
		}
		named[hex.EncodeToString(name)] = text
		if i == 0 {
			first = hex.EncodeToString(name)
		}
	}
	k.stat, k.first, k.named, k.sealers = stat, first, named, make(map[string]cipher.AEAD)
	return nil
}

// seal encrypts a packet for its organization, bound to the record. Only one goroutine at a time may use room.
func (k *Keys) seal(room *scratch, organization string, id uuid.UUID, p *Packet) (key string, sealed []byte, err error) {
	key, aead, err := k.sealer(organization)
	if err != nil {
		return "", nil, err
	}
	sealed, err = p.encode(room, aead.NonceSize(), aead.Overhead())
	if err != nil {
		return "", nil, err
	}
	nonce, plain := sealed[:aead.NonceSize()], sealed[aead.NonceSize():]
	_, _ = rand.Read(nonce) // rand.Read never returns an error.
	return key, aead.Seal(nonce, nonce, plain, id[:]), nil
}

// Seal encrypts a text to an organization, bound to a name. The names of other texts than traces are longer than a UUID,
// so that no text can stand in for a trace.
func (k *Keys) Seal(organization, name string, text []byte) (key string, sealed []byte, err error) {
	key, aead, err := k.sealer(organization)
	if err != nil {
		return "", nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(text)+aead.Overhead())
	_, _ = rand.Read(nonce) // rand.Read never returns an error.
	return key, aead.Seal(nonce, nonce, text, []byte(name)), nil
}

// Open decrypts a text that Seal has encrypted.
func (k *Keys) Open(organization, name, key string, sealed []byte) ([]byte, error) {
	return k.decrypt(organization, key, []byte(name), sealed)
}

// sealer returns the name of the first secret, and its cipher for an organization.
func (k *Keys) sealer(organization string) (key string, aead cipher.AEAD, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.sealers[organization]; known != nil {
		return k.first, known, nil
	}
	if aead, err = newAEAD(k.named[k.first], organization); err != nil {
		return "", nil, err
	}
	if len(k.sealers) >= maxSealers {
		clear(k.sealers)
	}
	k.sealers[organization] = aead
	return k.first, aead, nil
}

// open decrypts and unpacks a content.
func (k *Keys) open(organization string, id uuid.UUID, key string, sealed []byte) (*Packet, error) {
	plain, err := k.decrypt(organization, key, id[:], sealed)
	if err != nil {
		return nil, err
	}
	return decode(plain)
}

// decrypt returns a sealed text. bound is what it was bound to.
func (k *Keys) decrypt(organization, key string, bound, sealed []byte) ([]byte, error) {
	k.mu.Lock()
	text := k.named[key]
	if text == nil && k.readLocked() == nil {
		text = k.named[key]
	}
	k.mu.Unlock()
	if text == nil {
		return nil, errKey
	}
	aead, err := newAEAD(text, organization)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, errors.New("the content is shorter than its nonce")
	}
	plain, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], bound)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return plain, nil
}

func newAEAD(secret []byte, organization string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "traces of "+organization, 32)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("cipher: %w", err)
	}
	return cipher.NewGCM(block)
}
