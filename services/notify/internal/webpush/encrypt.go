package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes of the aes128gcm coding (RFC 8188, section 2), in bytes.
const (
	saltSize   = 16
	keySize    = 16
	nonceSize  = 12
	tagSize    = 16
	secretSize = 32
	recordSize = 4096
	headerSize = saltSize + 4 + 1 + pointSize

	// delimiter ends the text of the last record.
	delimiter = 2
)

// MaxPlaintext is the largest plaintext of a message, in bytes: a push service need not accept a body of more than
// 4096 bytes (RFC 8030, section 7.2), and a message is one record (RFC 8291, section 4).
const MaxPlaintext = recordSize - headerSize - tagSize - 1

// ErrTooLarge reports that a text does not fit into a message.
var ErrTooLarge = errors.New("webpush: the text is larger than 3993 bytes")

// Sender is the sender's side of the key agreement. RFC 8291 asks for a new one for each message. The messages of one
// broadcast share one, which reveals to a push service only that they belong together. Key and nonce still differ for
// each message: they also depend on its salt and the device's secret.
type Sender struct {
	private *ecdh.PrivateKey
	point   []byte
}

// NewSender returns a Sender with a new key pair.
func NewSender() (*Sender, error) {
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("webpush: make key pair: %w", err)
	}
	return newSender(private), nil
}

func newSender(private *ecdh.PrivateKey) *Sender {
	return &Sender{private: private, point: private.PublicKey().Bytes()}
}

// Encrypt returns the request body that carries a text to a device.
func (s *Sender) Encrypt(to Subscription, text []byte) ([]byte, error) {
	var salt [saltSize]byte
	_, _ = rand.Read(salt[:]) // never fails
	return s.encrypt(to, salt, text)
}

func (s *Sender) encrypt(to Subscription, salt [saltSize]byte, text []byte) ([]byte, error) {
	if len(text) > MaxPlaintext {
		return nil, ErrTooLarge
	}
	shared, err := s.private.ECDH(to.point)
	if err != nil {
		return nil, fmt.Errorf("webpush: agree on a secret: %w", err)
	}
	secret, err := combine(shared, to, s.point)
	if err != nil {
		return nil, err
	}
	return encode(secret, salt, s.point, text)
}

// combine derives a secret from the agreed one, the device's own and both public keys (RFC 8291, section 3.4).
func combine(shared []byte, to Subscription, sender []byte) ([]byte, error) {
	var info [len(infoPrefix) + 2*pointSize]byte
	n := copy(info[:], infoPrefix)
	n += copy(info[n:], to.raw[:])
	copy(info[n:], sender)
	secret, err := hkdf.Key(sha256.New, shared, to.auth[:], string(info[:]), secretSize)
	if err != nil {
		return nil, fmt.Errorf("webpush: combine secrets: %w", err)
	}
	return secret, nil
}

const (
	infoPrefix = "WebPush: info\x00"
	keyInfo    = "Content-Encoding: aes128gcm\x00"
	nonceInfo  = "Content-Encoding: nonce\x00"
)

// encode returns text as the one record of an aes128gcm body (RFC 8188).
func encode(secret []byte, salt [saltSize]byte, keyID, text []byte) ([]byte, error) {
	aead, nonce, err := derive(secret, salt)
	if err != nil {
		return nil, err
	}
	head := saltSize + 4 + 1 + len(keyID)
	body := make([]byte, head+len(text)+1, head+len(text)+1+tagSize)
	copy(body, salt[:])
	binary.BigEndian.PutUint32(body[saltSize:], recordSize)
	body[saltSize+4] = byte(len(keyID))
	copy(body[saltSize+5:], keyID)
	copy(body[head:], text)
	body[len(body)-1] = delimiter
	return aead.Seal(body[:head], nonce, body[head:], nil), nil
}

// derive returns the content cipher and the nonce of the first record.
func derive(secret []byte, salt [saltSize]byte) (cipher.AEAD, []byte, error) {
	pseudo, err := hkdf.Extract(sha256.New, secret, salt[:])
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: extract: %w", err)
	}
	key, err := hkdf.Expand(sha256.New, pseudo, keyInfo, keySize)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: derive key: %w", err)
	}
	nonce, err := hkdf.Expand(sha256.New, pseudo, nonceInfo, nonceSize)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: derive nonce: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: cipher mode: %w", err)
	}
	return aead, nonce, nil
}
