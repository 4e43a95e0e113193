package azure

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/custody/identity/identitytest"
	"switchyard.dev/services/platform/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	canary = "eyJhbGciOiJSUzI1NiJ9.canary.x"
	tenant = "11111111-2222-3333-4444-555555555555"
	client = "66666666-7777-8888-9999-000000000000"
	scope  = "https://cognitiveservices.azure.com/.default"
)

// entra is Entra with one tenant. Its token endpoint is a handler.
func entra(t *testing.T, token http.HandlerFunc) (string, identity.Clients) {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/" + tenant + "/v2.0/.well-known/openid-configuration":
			https := strings.Replace(server.URL, "http://", "https://", 1) + "/" + tenant
			_, _ = fmt.Fprintf(w, `{"token_endpoint":"%[1]s/oauth2/v2.0/token","authorization_endpoint":"%[1]s/oauth2/v2.0/authorize","issuer":"%[1]s/v2.0"}`, https)
		case "/" + tenant + "/oauth2/v2.0/token":
			token(w, r)
		default:
			t.Errorf("called %s", r.URL)
			http.NotFound(w, r)
		}
	}))
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return server.URL, identity.NewClients(transport, transport)
}

func open(t *testing.T, config identity.Azure, clients identity.Clients) *Source {
	t.Helper()
	complete, err := identity.Config{Azure: &config}.Complete("https://acme.openai.azure.com", "")
	if err != nil {
		t.Fatal(err)
	}
	source, err := New(*complete.Azure, clients)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func form(t *testing.T, r *http.Request) url.Values {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		t.Error(err)
	}
	return values
}

func TestClientSecret(t *testing.T) {
	t.Setenv("AZURE_AUTHORITY_HOST", "https://127.0.0.1:1") // The environment configures nothing.
	n := 0
	at, clients := entra(t, func(w http.ResponseWriter, r *http.Request) {
		got := form(t, r)
		n++
		if got.Get("grant_type") != "client_credentials" || got.Get("client_id") != client || got.Get("client_secret") != "s3cr3t" ||
			!strings.Contains(got.Get("scope"), scope) {
			t.Errorf("form %v", got)
		}
		_, _ = fmt.Fprintf(w, `{"token_type":"Bearer","access_token":"tok-%d","expires_in":3600,"ext_expires_in":3600,"refresh_in":1800}`, n)
	})
	source := open(t, identity.Azure{TenantID: tenant, ClientID: client, ClientSecretFile: identitytest.File(t, "s3cr3t\n"), Authority: at}, clients)
	for _, want := range []string{"tok-1", "tok-2"} { // No cache of the library keeps the first.
		grant, err := source.Exchange(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if grant.Token.Reveal() != want {
			t.Errorf("token %q, want %q", grant.Token.Reveal(), want)
		}
		if life := time.Until(grant.Expires); life > time.Hour || life < 59*time.Minute {
			t.Errorf("lives %v", life)
		}
		if renew := time.Until(grant.Renew); renew > 30*time.Minute || renew < 29*time.Minute {
			t.Errorf("renewed in %v, want the 30m of refresh_in", renew)
		}
	}
}

func TestFederatedToken(t *testing.T) {
	var got []string
	at, clients := entra(t, func(w http.ResponseWriter, r *http.Request) {
		f := form(t, r)
		if f.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || f.Get("client_secret") != "" {
			t.Errorf("form %v", f)
		}
		got = append(got, f.Get("client_assertion"))
		_, _ = io.WriteString(w, `{"token_type":"Bearer","access_token":"tok","expires_in":3600}`)
	})
	name := identitytest.File(t, "one")
	source := open(t, identity.Azure{TenantID: tenant, ClientID: client, FederatedTokenFile: name, Authority: at}, clients)
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(string(name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := source.Exchange(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"one", "two"}, got); diff != "" {
		t.Errorf("assertions (-want +got):\n%s", diff)
	}
}

func TestManagedIdentity(t *testing.T) {
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		if r.URL.Path != "/metadata/identity/oauth2/token" || r.Header.Get("Metadata") != "true" ||
			r.URL.Query().Get("resource") != "https://cognitiveservices.azure.com" || r.URL.Query().Get("client_id") != client {
			t.Errorf("asked for %s with %v", r.URL, r.Header)
		}
		_, _ = fmt.Fprintf(w, `{"access_token":"tok-%d","expires_in":"86399","expires_on":"%d","resource":"r","token_type":"Bearer"}`, n, time.Now().Add(24*time.Hour).Unix())
	}))
	transport := &http.Transport{}
	defer server.Close()
	defer transport.CloseIdleConnections()
	source := open(t, identity.Azure{Source: identity.SourceManagedIdentity, ClientID: client, MetadataURL: server.URL}, identity.NewClients(transport, transport))
	for _, want := range []string{"tok-1", "tok-2"} { // The library's cache for the whole process is not used.
		grant, err := source.Exchange(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if life := time.Until(grant.Expires); grant.Token.Reveal() != want || life < 23*time.Hour {
			t.Errorf("token %q for %v, want %q", grant.Token.Reveal(), life, want)
		}
	}
}

// A machine whose identity server is not ready is asked a few times within seconds, not for minutes.
func TestManagedIdentityTriesAgain(t *testing.T) {
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, canary)
	}))
	transport := &http.Transport{}
	defer server.Close()
	defer transport.CloseIdleConnections()
	source := open(t, identity.Azure{Source: identity.SourceManagedIdentity, MetadataURL: server.URL}, identity.NewClients(transport, transport))
	_, err := source.Exchange(t.Context())
	if err == nil || !strings.Contains(err.Error(), "status 404") || strings.Contains(err.Error(), "canary") || n != 3 {
		t.Errorf("%v after %d calls, want a 404 after 3", err, n)
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		status       int
		answer, want string
	}{
		"a secret that ended": {http.StatusUnauthorized, `{"error":"invalid_client","error_description":"AADSTS7000222: The secret ` + canary + ` is expired."}`, "status 401: AADSTS7000222"},
		"another refusal":     {http.StatusBadRequest, `{"error":"unauthorized_client","error_description":"` + canary + `"}`, "status 400: unauthorized_client"},
		"down":                {http.StatusServiceUnavailable, canary, "status 503"},
		"no JSON":             {http.StatusOK, canary, "get a token"},
		"nested":              {http.StatusOK, `{"access_token":` + strings.Repeat("[", 900_000), "get a token"},
		"no token":            {http.StatusOK, `{"x":"` + canary + `"}`, "get a token"},
		"redirects":           {http.StatusFound, canary, "status 302"},
		"too large":           {http.StatusOK, strings.Repeat(canary, 1<<17), "get a token"},
	} {
		calls := 0
		at, clients := entra(t, func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		})
		_, err := open(t, identity.Azure{TenantID: tenant, ClientID: client, ClientSecretFile: identitytest.File(t, canary), Authority: at}, clients).Exchange(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want an error that says %q without the secret", name, err, c.want)
		}
		if calls != 1 {
			t.Errorf("%s: %d calls, want 1", name, calls)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	at, clients := entra(t, http.NotFound)
	_, err := open(t, identity.Azure{TenantID: tenant, ClientID: client, FederatedTokenFile: secret.File(missing), Authority: at}, clients).Exchange(t.Context())
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("no file: %v, want an error that names it", err)
	}
}
