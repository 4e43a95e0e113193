package signing_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/http"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// Published vectors: what we send is what others' documents say it must be.
func TestPublishedVectors(t *testing.T) {
	tests := map[string]struct {
		mode, secret, header, want string
		message                    signing.Message
	}{
		// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
		"GitHub": {
			signing.EndpointBody, "It's a Secret to Everybody", signing.HeaderSignature,
			"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
			signing.Message{Body: []byte("Hello, World!")},
		},
		// The tests of the Standard Webhooks libraries.
		"Standard Webhooks": {
			signing.OrgTimestamp, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", signing.HeaderStandardSignature,
			"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
			signing.Message{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", At: time.Unix(1614265330, 0), Body: []byte(`{"test": 2432232314}`)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := signing.Signer{Mode: tt.mode, Secrets: []secret.Value{secret.New(tt.secret)}}.Headers(tt.message)[tt.header]
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.header, got, tt.want)
			}
		})
	}
}

// received is a delivery as a receiver has it.
type received struct {
	header http.Header
	body   string
}

// Receivers as their documents tell them to verify; each shares no code with us.
var verifiers = map[string]func(r received, secret string) bool{
	// `sha256=` and the hex HMAC of the body, as X-Hub-Signature-256.
	"GitHub's": func(r received, secret string) bool {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(r.body))
		return hmac.Equal([]byte("sha256="+hex.EncodeToString(mac.Sum(nil))), []byte(r.header.Get("X-Webhook-Signature")))
	},
	// The hex HMAC of `<timestamp>.<body>`.
	"the contract's": func(r received, secret string) bool {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(r.header.Get("X-Webhook-Timestamp") + "." + r.body))
		return hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(r.header.Get("X-Webhook-Signature")))
	},
	"Standard Webhooks": func(r received, secret string) bool {
		w, err := standardwebhooks.NewWebhook(secret)
		return err == nil && w.Verify([]byte(r.body), r.header) == nil
	},
}

// A receiver with any of the secrets in force accepts what we send, and none accepts
// it once something that the signature covers has changed. The two older forms are
// signed with the current secret alone, so secrets overlap only in Standard Webhooks.
func TestVerifiersTakeWhatIsSigned(t *testing.T) {
	current := "whsec_" + base64.StdEncoding.EncodeToString([]byte("the current secret, 32 bytes ..."))
	previous := "whsec_" + base64.StdEncoding.EncodeToString([]byte("the one before it, 32 bytes ...."))
	const stranger = "whsec_c29tZWJvZHkgZWxzZSdzIHNlY3JldCBvZiAzMiBieXRlcw=="
	both := []string{current, previous}
	tests := map[string]struct {
		mode     string
		verifier string
		takes    []string // secrets by which it accepts
		covers   []string // what may not change
	}{
		"organization":           {signing.OrgTimestamp, "the contract's", both[:1], []string{"body", "X-Webhook-Timestamp"}},
		"organization, standard": {signing.OrgTimestamp, "Standard Webhooks", both, []string{"body", "Webhook-Timestamp", "Webhook-Id"}},
		"endpoint":               {signing.EndpointBody, "GitHub's", both[:1], []string{"body"}},
		"endpoint, standard":     {signing.EndpointBody, "Standard Webhooks", both, []string{"body", "Webhook-Timestamp", "Webhook-Id"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sent := send(tt.mode, both)
			accepts := verifiers[tt.verifier]
			if accepts(sent, stranger) {
				t.Error("taken with somebody else's secret")
			}
			for _, held := range tt.takes {
				if !accepts(sent, held) {
					t.Errorf("not taken by who holds secret %.12s…", held)
				}
				for _, part := range tt.covers {
					if accepts(sent.changed(part), held) {
						t.Errorf("taken with another %s", part)
					}
				}
			}
			if rotated := send(tt.mode, both[:1]); accepts(rotated, previous) {
				t.Error("taken with the secret before, whose time is over")
			}
		})
	}
}

// send is a delivery of this moment, as Verify of Standard Webhooks wants it.
func send(mode string, texts []string) received {
	var secrets []secret.Value
	for _, text := range texts {
		secrets = append(secrets, secret.New(text))
	}
	r := received{header: http.Header{}, body: `{"order":7}`}
	for name, value := range (signing.Signer{Mode: mode, Secrets: secrets}).Headers(signing.Message{ID: "0190", At: time.Now(), Body: []byte(r.body)}) {
		r.header.Set(name, value)
	}
	return r
}

// changed is the delivery with one digit of a part another.
func (r received) changed(part string) received {
	r.header = maps.Clone(r.header)
	other := func(text string) string { return text[:len(text)-2] + string(text[len(text)-2]^1) + text[len(text)-1:] }
	if part == "body" {
		r.body = other(r.body)
		return r
	}
	r.header.Set(part, other(r.header.Get(part)))
	return r
}
