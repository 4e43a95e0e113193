package webpush

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"testing"

	other "github.com/SherClockHolmes/webpush-go"
)

// Each case makes one push ready to be sent, for a device that is read from
// storage. The floors are the cryptography of RFC 8291 and nothing else, with a
// key pair for each message and with one for all.
func BenchmarkPrepare(b *testing.B) {
	text := bytes.Repeat([]byte("x"), 256)
	d := newDevice(b)
	stored := d.subscription(b, pushURL).Bytes()
	shared, err := NewSender()
	if err != nil {
		b.Fatal(err)
	}
	client, key := NewClient(nil, NewSigner("mailto:ops@example.com")), newKey(b)
	prepare := func(b *testing.B, from *Sender) {
		b.Helper()
		to, err := FromBytes(stored)
		if err == nil {
			_, err = client.Prepare(b.Context(), key, from, to, Message{Text: text, TTL: 60, Urgency: UrgencyNormal})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("user", func(b *testing.B) {
		for b.Loop() {
			from, _ := NewSender()
			prepare(b, from)
		}
	})
	b.Run("user-floor", func(b *testing.B) {
		for b.Loop() {
			private, _ := ecdh.P256().GenerateKey(rand.Reader)
			floor(b, d, private, text)
		}
	})
	b.Run("broadcast", func(b *testing.B) {
		for b.Loop() {
			prepare(b, shared)
		}
	})
	b.Run("broadcast-floor", func(b *testing.B) {
		for b.Loop() {
			floor(b, d, shared.private, text)
		}
	})
	b.Run("webpush-go", func(b *testing.B) {
		private, public, err := other.GenerateVAPIDKeys()
		if err != nil {
			b.Fatal(err)
		}
		point := base64.RawURLEncoding.EncodeToString(d.private.PublicKey().Bytes())
		to := &other.Subscription{Endpoint: pushURL, Keys: other.Keys{P256dh: point, Auth: base64.RawURLEncoding.EncodeToString(d.auth)}}
		for b.Loop() {
			_, err := other.SendNotification(text, to, &other.Options{ //nolint:bodyclose // it has none
				HTTPClient: unsent{}, Subscriber: "ops@example.com", TTL: 60, VAPIDPrivateKey: private, VAPIDPublicKey: public,
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// unsent takes a request and sends nothing.
type unsent struct{}

func (unsent) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(bytes.NewReader(nil))}, nil
}

// floor is the least that a message takes: agree, derive, encrypt.
func floor(b *testing.B, d device, private *ecdh.PrivateKey, text []byte) {
	b.Helper()
	device, err := ecdh.P256().NewPublicKey(d.private.PublicKey().Bytes())
	if err != nil {
		b.Fatal(err)
	}
	secret, err := private.ECDH(device)
	if err != nil {
		b.Fatal(err)
	}
	var salt [saltSize]byte
	_, _ = rand.Read(salt[:])
	combined, _ := hkdf.Key(sha256.New, secret, d.auth, infoPrefix, secretSize)
	pseudo, _ := hkdf.Extract(sha256.New, combined, salt[:])
	key, _ := hkdf.Expand(sha256.New, pseudo, keyInfo, keySize)
	nonce, _ := hkdf.Expand(sha256.New, pseudo, nonceInfo, nonceSize)
	block, err := aes.NewCipher(key)
	if err != nil {
		b.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		b.Fatal(err)
	}
	aead.Seal(nil, nonce, text, nil)
}
