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
	"time"

	other "github.com/SherClockHolmes/webpush-go"

	"switchyard.dev/services/platform/testkit/growth"
)

// preparation makes one push ready to be sent. The floors are the cryptography of
// RFC 8291 and nothing else, with a key pair for each message and with one for
// all; ours begins with the device as it is read from storage.
type preparation struct {
	name string
	one  func() error
}

func preparations(tb testing.TB) []preparation {
	tb.Helper()
	text := bytes.Repeat([]byte("x"), 256)
	d := newDevice(tb)
	point, stored := d.private.PublicKey().Bytes(), d.subscription(tb, pushURL).Bytes()
	shared, err := NewSender()
	if err != nil {
		tb.Fatal(err)
	}
	client, key := NewClient(nil, NewSigner("mailto:ops@example.com")), newKey(tb)
	prepare := func(from *Sender) error {
		to, err := FromBytes(stored)
		if err != nil {
			return err
		}
		_, err = client.Prepare(tb.Context(), key, from, to, Message{Text: text, TTL: 60, Urgency: UrgencyNormal})
		return err
	}
	theirs, err := preparedByOther(d, text)
	if err != nil {
		tb.Fatal(err)
	}
	return []preparation{
		{"user", func() error {
			from, err := NewSender()
			if err != nil {
				return err
			}
			return prepare(from)
		}},
		{"user-floor", func() error {
			private, err := ecdh.P256().GenerateKey(rand.Reader)
			if err != nil {
				return err
			}
			return floor(point, d.auth, private, text)
		}},
		{"broadcast", func() error { return prepare(shared) }},
		{"broadcast-floor", func() error { return floor(point, d.auth, shared.private, text) }},
		{"webpush-go", theirs},
	}
}

// preparedByOther is one push of webpush-go.
func preparedByOther(d device, text []byte) (func() error, error) {
	private, public, err := other.GenerateVAPIDKeys()
	if err != nil {
		return nil, err
	}
	to := &other.Subscription{Endpoint: pushURL, Keys: other.Keys{
		P256dh: base64.RawURLEncoding.EncodeToString(d.private.PublicKey().Bytes()), Auth: base64.RawURLEncoding.EncodeToString(d.auth),
	}}
	return func() error {
		answer, err := other.SendNotification(text, to, &other.Options{
			HTTPClient: unsent{}, Subscriber: "ops@example.com", TTL: 60, VAPIDPrivateKey: private, VAPIDPublicKey: public,
		})
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}, nil
}

func BenchmarkPrepare(b *testing.B) {
	for _, p := range preparations(b) {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := p.one(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPrepareBeside runs the same side by side, for ratios of processor time:
// some of each in turn, and of each the cheapest turn, which no other process on the
// machine has disturbed.
func BenchmarkPrepareBeside(b *testing.B) {
	const each = 200
	all := preparations(b)
	least := make([]time.Duration, len(all))
	for b.Loop() {
		for i, p := range all {
			began := growth.ProcessorTime()
			for range each {
				if err := p.one(); err != nil {
					b.Fatal(err)
				}
			}
			if took := (growth.ProcessorTime() - began) / each; least[i] == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	b.ReportMetric(0, "ns/op") // of all together, which says nothing
	for i, p := range all {
		b.ReportMetric(float64(least[i].Nanoseconds())/1000, p.name+"-µs")
	}
	ratio := func(over, under int) float64 { return float64(least[over]) / float64(least[under]) }
	b.ReportMetric(ratio(0, 1), "user/floor")
	b.ReportMetric(ratio(2, 3), "broadcast/floor")
	b.ReportMetric(ratio(4, 0), "webpush-go/user")
	b.ReportMetric(ratio(4, 2), "webpush-go/broadcast")
}

// unsent takes a request and sends nothing.
type unsent struct{}

func (unsent) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(bytes.NewReader(nil))}, nil
}

// floor is the least that a message takes: agree, derive, encrypt.
func floor(point, auth []byte, private *ecdh.PrivateKey, text []byte) error {
	device, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return err
	}
	secret, err := private.ECDH(device)
	if err != nil {
		return err
	}
	var salt [saltSize]byte
	_, _ = rand.Read(salt[:])
	combined, _ := hkdf.Key(sha256.New, secret, auth, infoPrefix, secretSize)
	pseudo, _ := hkdf.Extract(sha256.New, combined, salt[:])
	key, _ := hkdf.Expand(sha256.New, pseudo, keyInfo, keySize)
	nonce, _ := hkdf.Expand(sha256.New, pseudo, nonceInfo, nonceSize)
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	aead.Seal(nil, nonce, text, nil)
	return nil
}
