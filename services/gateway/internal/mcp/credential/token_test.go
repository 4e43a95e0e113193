package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/mcp/oauth"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/secret"
)

// issuer is an authorization server in the place of a network.
type issuer struct {
	life time.Duration

	mu      sync.Mutex
	secrets []string // of the requests for tokens
	refuses bool
}

// RoundTrip implements http.RoundTripper.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	status, body := http.StatusNotFound, ""
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		status, body = http.StatusOK, `{"issuer":"https://auth.example","token_endpoint":"https://auth.example/token"}`
	case "/token":
		_, text, _ := r.BasicAuth()
		i.secrets = append(i.secrets, text)
		status, body = http.StatusOK, fmt.Sprintf(`{"access_token":"tok-%d","token_type":"Bearer","expires_in":%d}`, len(i.secrets), int(i.life.Seconds()))
		if i.refuses {
			status, body = http.StatusUnauthorized, `{"error":"invalid_client"}`
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r, ContentLength: -1}, nil
}

func (i *issuer) asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.secrets)
}

func clientOf(organization string, version int) *toolserver.Server {
	return &toolserver.Server{Organization: organization, ID: "tools", URL: "https://tools.example/mcp", Version: version, Credential: toolserver.Credential{
		Custody: toolserver.CustodyReference, Header: "Authorization", Scheme: "Bearer", Reference: "file:token",
		OAuth: &toolserver.OAuth{ClientID: "c", Issuer: "https://auth.example"},
	}}
}

// withTokens runs a test with a cache whose identities are renewed.
func withTokens(t *testing.T, i *issuer, p *place, test func(t *testing.T, c *Cache)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		identities, err := identity.NewManager(identity.Options{
			Fingerprint: func(secret.Value) string { return "print" }, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- identities.Run(ctx) }()
		c := NewCache(p, nil)
		c.UseTokens(oauth.New(i, func(string) error { return nil }), identities)
		test(t, c)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func header(t *testing.T, c *Cache, server *toolserver.Server, want string) secret.Value {
	t.Helper()
	name, value, err := c.Header(t.Context(), server)
	if name != "Authorization" || value.Reveal() != want || err != nil {
		t.Errorf("%s: %q, %v; want %s", name, value.Reveal(), err, want)
	}
	return value
}

// A token is had once by many callers, renewed ahead, and is of one organization's server alone. The secret that was put
// in the place of another is used for the next token.
func TestTokens(t *testing.T) {
	i, p := &issuer{life: 10 * time.Minute}, &place{value: "first secret"}
	withTokens(t, i, p, func(t *testing.T, c *Cache) {
		t.Helper()
		var wait sync.WaitGroup
		for range 50 {
			wait.Go(func() { header(t, c, clientOf("org_a", 1), "Bearer tok-1") })
		}
		wait.Wait()
		p.put("second secret", nil)
		time.Sleep(9 * time.Minute) // Four fifths of its life have passed.
		synctest.Wait()
		if i.asked() != 2 || i.secrets[0] != "first+secret" || i.secrets[1] != "second+secret" {
			t.Errorf("tokens by %q", i.secrets)
		}
		header(t, c, clientOf("org_a", 1), "Bearer tok-2")
		header(t, c, clientOf("org_a", 2), "Bearer tok-3") // Another registration.
		if _, _, err := c.Header(t.Context(), clientOf("org_b", 1)); err == nil {
			t.Error("an organization got a token by the secret of another")
		}
		time.Sleep(2 * time.Hour) // Not used: no longer renewed after an hour.
		synctest.Wait()
		asked := i.asked()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if later := i.asked(); later != asked {
			t.Errorf("%d tokens of a server that is not used", later-asked)
		}
	})
}

// A token that the server refused is replaced, but not as often as a server refuses.
func TestRefusedTokens(t *testing.T) {
	i, p := &issuer{life: time.Hour}, &place{value: "first secret"}
	withTokens(t, i, p, func(t *testing.T, c *Cache) {
		t.Helper()
		server := clientOf("org_a", 1)
		first := header(t, c, server, "Bearer tok-1")
		if c.Refused(server, first) {
			t.Error("a token that was just had is replaced")
		}
		time.Sleep(time.Minute)
		if !c.Refused(server, first) {
			t.Error("a refused token is kept")
		}
		second := header(t, c, server, "Bearer tok-2")
		if !c.Refused(server, first) {
			t.Error("a token that was replaced meanwhile is used")
		}
		for range 20 {
			time.Sleep(time.Second)
			if c.Refused(server, second) {
				second = header(t, c, server, fmt.Sprint("Bearer tok-", i.asked()+1))
			}
		}
		if asked := i.asked(); asked > 4 {
			t.Errorf("%d tokens in 20 seconds of refusals", asked)
		}
		if c.Refused(referenced(), first) {
			t.Error("a secret that is sent itself is replaced")
		}
	})
}

// A client that is refused is not asked for by each call, and the error says why.
func TestNoToken(t *testing.T) {
	i, p := &issuer{life: time.Hour, refuses: true}, &place{value: "first secret"}
	withTokens(t, i, p, func(t *testing.T, c *Cache) {
		t.Helper()
		for range 100 {
			_, _, err := c.Header(t.Context(), clientOf("org_a", 1))
			if e, ok := errors.AsType[*oauth.Error](err); !ok || !strings.Contains(e.Text, "invalid_client") || strings.Contains(err.Error(), "first") {
				t.Fatalf("%v", err)
			}
		}
		if asked := i.asked(); asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		i.mu.Lock()
		i.refuses = false
		i.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if _, _, err := c.Header(t.Context(), clientOf("org_a", 1)); err != nil {
			t.Error(err)
		}
		p.put("", errAway)
		_, _, err := c.Header(t.Context(), clientOf("org_a", 7))
		if e, ok := errors.AsType[*oauth.Error](err); !ok || e.Text != "the client's secret can't be read" || !errors.Is(err, errAway) {
			t.Errorf("%v", err)
		}
	})
	if _, _, err := NewCache(p, nil).Header(t.Context(), clientOf("org_a", 1)); !errors.Is(err, errNoClients) {
		t.Errorf("%v", err)
	}
}

func TestClientsAreBounded(t *testing.T) {
	i, p := &issuer{life: time.Hour}, &place{value: "first secret"}
	withTokens(t, i, p, func(t *testing.T, c *Cache) {
		t.Helper()
		for v := range maxSecrets + 10 {
			c.tokens.of(clientOf("org_a", 2*v))
		}
		if n := c.tokens.entries.Len(); n != maxSecrets {
			t.Errorf("%d are kept", n)
		}
	})
}
