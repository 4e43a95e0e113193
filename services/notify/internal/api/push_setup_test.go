package api_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"testing"

	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/push"
	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/notify/internal/webpush/webpushtest"
)

// Canaries of what must not be seen: they are in every registration of the tests.
const (
	canaryPath = "canary-endpoint-path"
	canaryAuth = "canary-auth-secr" // 16 bytes
)

// withWebPush switches web push on.
func withWebPush(t *testing.T, b *bench, p *overrides) {
	t.Helper()
	withKeys(webpushtest.NewKeys(t))(t, b, p)
}

func withKeys(keys webpushtest.Keys) option {
	return func(t *testing.T, b *bench, p *overrides) {
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
	body := map[string]any{"subscription": map[string]any{
		"endpoint": endpoint, "expirationTime": nil,
		"keys": webpushtest.BrowserKeys(t, []byte(canaryAuth)),
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
