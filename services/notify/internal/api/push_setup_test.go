package api_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"testing"

	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/push"
	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/platform/secret"
)

// Canaries of what must not be seen: they are in every registration of the tests.
const (
	canaryPath = "canary-endpoint-path"
	canaryAuth = "canary-auth-secr" // 16 bytes
)

// twoKeys are VAPID keys, the second an older one.
type twoKeys struct{ keys webpush.Keys }

func (k twoKeys) Keys() webpush.Keys { return k.keys }

func newTwoKeys(t *testing.T) twoKeys {
	t.Helper()
	var lines []secret.Value
	for range 2 {
		_, private, err := webpush.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, private)
	}
	keys, err := webpush.ParseKeys(lines)
	if err != nil {
		t.Fatal(err)
	}
	return twoKeys{keys}
}

// withWebPush switches web push on.
func withWebPush(t *testing.T, b *bench, p *parts) {
	t.Helper()
	withKeys(newTwoKeys(t))(t, b, p)
}

func withKeys(keys twoKeys) option {
	return func(t *testing.T, b *bench, p *parts) {
		t.Helper()
		hosts, err := webpush.NewHosts(webpush.KnownHosts, nil, url.Parse)
		if err != nil {
			t.Fatal(err)
		}
		p.services.Push = push.NewRegistry(postgres.NewDevices(b.pool), hosts, keys, p.box)
		p.senders = append(p.senders, push.NewSender(hosts, keys, push.Limits{Content: 600}))
	}
}

// browser is a subscription as a page sends it, with fields of the request beside it.
func browser(t *testing.T, endpoint string, more map[string]any) string {
	t.Helper()
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	body := map[string]any{"subscription": map[string]any{
		"endpoint": endpoint, "expirationTime": nil,
		"keys": map[string]string{
			"p256dh": base64.RawURLEncoding.EncodeToString(private.PublicKey().Bytes()),
			"auth":   base64.RawURLEncoding.EncodeToString([]byte(canaryAuth)),
		},
	}}
	maps.Copy(body, more)
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type registration struct {
	SubID    string  `json:"sub_id"`
	User     *string `json:"user_id"`
	Site     *string `json:"site_id"`
	Platform string  `json:"platform"`
	Origin   string  `json:"endpoint_origin"`
	KeyID    string  `json:"vapid_key_id"`
	Status   string  `json:"status"`
}

type registrations struct {
	All  []registration `json:"registrations"`
	Next string         `json:"next_cursor"`
}

const registrationsPath = "/v1/push/registrations"
