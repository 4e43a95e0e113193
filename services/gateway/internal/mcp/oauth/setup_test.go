package oauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is a client's secret, which is in no error.
const canary = "s3cr3t canary/+:"

// world is a tool server and an authorization server in one. Answers are by path; URL stands for its own address in them.
type world struct {
	*httptest.Server
	client *Client

	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	asked   []string
	forms   []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{answers: make(map[string]http.HandlerFunc)}
	w.Server = httptest.NewServer(w)
	guard, err := netguard.New(netguard.Options{AllowTargets: []string{w.Listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: guard.DialContext, MaxResponseHeaderBytes: 256 << 10}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		w.CloseClientConnections()
		w.Close()
	})
	w.client = New(transport, func(url string) error {
		_, err := guard.CheckSecureURL(url)
		return err
	})
	w.says("/.well-known/oauth-protected-resource/mcp", `{"resource":"URL/mcp","authorization_servers":["URL/tenant"]}`)
	w.says("/.well-known/oauth-authorization-server/tenant", `{"issuer":"URL/tenant","token_endpoint":"URL/token"}`)
	w.says("/token", `{"access_token":"tok","token_type":"Bearer","expires_in":600}`)
	return w
}

// ServeHTTP implements http.Handler.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	w.asked = append(w.asked, r.Method+" "+r.URL.Path)
	if r.URL.Path == "/token" {
		w.forms = append(w.forms, r.Header.Get("Authorization")+"\n"+string(body))
	}
	answer := w.answers[r.URL.Path]
	w.mu.Unlock()
	if answer == nil {
		http.NotFound(rw, r)
		return
	}
	answer(rw, r)
}

func (w *world) answer(path string, with http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[path] = with
}

// says makes a path answer with JSON; with nothing, it is not found.
func (w *world) says(path, text string) {
	if text == "" {
		w.answer(path, nil)
		return
	}
	w.answer(path, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(rw, strings.ReplaceAll(text, "URL", w.URL))
	})
}

func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// oauth returns a registration of the world.
func (w *world) oauth() *toolserver.OAuth {
	return &toolserver.OAuth{ClientID: "agent one", Issuer: w.URL + "/tenant", Scopes: []string{"tools:read", "tools:call"}}
}

// source returns the source of a registration; its secret is text.
func (w *world) source(c *toolserver.OAuth, text string) *Source {
	return w.client.Source(&toolserver.Server{URL: w.URL + "/mcp?key=1", Credential: toolserver.Credential{OAuth: c}}, func(context.Context) (secret.Value, error) {
		return secret.New(text), nil
	})
}

func (w *world) exchange(t *testing.T, c *toolserver.OAuth) (identity.Grant, error) {
	t.Helper()
	return w.source(c, canary).Exchange(t.Context())
}

// newKey returns a private key in PEM.
func newKey(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key, pemOf(t, key)
}

func pemOf(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// unsigned returns a JSON Web Token with claims.
func unsigned(claims string) string {
	return "eyJhbGciOiJub25lIn0." + encode(claims) + ".c2ln"
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
