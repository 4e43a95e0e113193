package google

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/custody/identity/identitytest"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	canary = "eyJhbGciOiJSUzI1NiJ9.canary.x"
	mail   = "robot@acme.iam.gserviceaccount.com"
)

// serve returns a server's address, and clients that reach it.
func serve(t *testing.T, handler http.HandlerFunc) (string, identity.Clients) {
	t.Helper()
	server, clients := identitytest.Serve(t, handler)
	return server.URL, clients
}

func open(t *testing.T, config identity.GCP, clients identity.Clients) *Source {
	t.Helper()
	complete, err := identity.Config{GCP: &config}.Complete("https://europe-west4-aiplatform.googleapis.com", "")
	if err != nil {
		t.Fatal(err)
	}
	source, err := New(*complete.GCP, clients)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func file(t *testing.T, content any) secret.File {
	t.Helper()
	text, ok := content.(string)
	if !ok {
		encoded, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		text = string(encoded)
	}
	return identitytest.File(t, text)
}

// newKey returns a key and its PEM.
func newKey(t *testing.T) (*rsa.PrivateKey, string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// claims returns the claims of an assertion whose signature is right.
func claims(t *testing.T, key *rsa.PrivateKey, assertion string) (all map[string]any) {
	t.Helper()
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		t.Fatalf("assertion %q", assertion)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err == nil {
		err = rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], signature)
	}
	if err != nil {
		t.Errorf("signature: %v", err)
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Errorf("claims: %v", err)
	}
	return all
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

func check(t *testing.T, grant identity.Grant, err error, token, subject string, life time.Duration) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if grant.Token.Reveal() != token || grant.Subject != subject {
		t.Errorf("token %q of %q, want %q of %q", grant.Token.Reveal(), grant.Subject, token, subject)
	}
	if got := time.Until(grant.Expires); got > life || got < life-10*time.Second {
		t.Errorf("lives %v, want %v", got, life)
	}
}

func TestServiceAccount(t *testing.T) {
	key, text := newKey(t)
	var at string
	at, clients := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got := form(t, r)
		if got.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
			t.Errorf("grant %q", got.Get("grant_type"))
		}
		all := claims(t, key, got.Get("assertion"))
		if all["iss"] != mail || all["aud"] != at+"/token" || all["scope"] != identity.CloudPlatform {
			t.Errorf("claims %v", all)
		}
		_, _ = io.WriteString(w, `{"access_token":"ya29.tok","token_type":"Bearer","expires_in":3599}`)
	})
	name := file(t, map[string]string{"type": "service_account", "client_email": mail, "private_key": text, "private_key_id": "k1", "token_uri": at + "/token"})
	source := open(t, identity.GCP{CredentialsFile: name, QuotaProject: "acme-billing"}, clients)
	grant, err := source.Exchange(t.Context())
	check(t, grant, err, "ya29.tok", mail, 3599*time.Second)
	if diff := cmp.Diff(http.Header{"X-Goog-User-Project": {"acme-billing"}}, grant.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// A token of the workload becomes one of Google, and that one of a service account.
func TestExternalAccount(t *testing.T) {
	token := file(t, canary)
	var at string
	at, clients := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/token":
			got := form(t, r)
			want := url.Values{
				"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "audience": {"//iam.googleapis.com/pool"},
				"scope": {identity.CloudPlatform}, "requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
				"subject_token": {canary}, "subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"},
			}
			delete(got, "options")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("form (-want +got):\n%s", diff)
			}
			_, _ = io.WriteString(w, `{"access_token":"federated","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3600}`)
		case "/impersonate":
			if r.Header.Get("Authorization") != "Bearer federated" {
				t.Errorf("authorization %q", r.Header.Get("Authorization"))
			}
			_, _ = io.WriteString(w, `{"accessToken":"ya29.imp","expireTime":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
		}
	})
	external := map[string]any{
		"type": "external_account", "audience": "//iam.googleapis.com/pool", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
		"token_url": at + "/v1/token", "credential_source": map[string]string{"file": string(token)},
	}
	grant, err := open(t, identity.GCP{CredentialsFile: file(t, external)}, clients).Exchange(t.Context())
	check(t, grant, err, "federated", "//iam.googleapis.com/pool", time.Hour)
	external["service_account_impersonation_url"] = at + "/impersonate"
	grant, err = open(t, identity.GCP{CredentialsFile: file(t, external)}, clients).Exchange(t.Context())
	check(t, grant, err, "ya29.imp", at+"/impersonate", time.Hour)
}

func TestMetadata(t *testing.T) {
	t.Setenv("GCE_METADATA_HOST", "127.0.0.1:1") // The environment configures nothing.
	ours := "Google"
	at, clients := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/computeMetadata/v1/instance/service-accounts/"+mail+"/token" || r.Header.Get("Metadata-Flavor") != "Google" ||
			r.URL.Query().Get("scopes") != identity.CloudPlatform {
			t.Errorf("asked for %s with %v", r.URL, r.Header)
		}
		w.Header().Set("Metadata-Flavor", ours)
		_, _ = io.WriteString(w, `{"access_token":"ya29.md","expires_in":1799,"token_type":"Bearer"}`)
	})
	source := open(t, identity.GCP{Source: identity.SourceMetadata, Account: mail, MetadataURL: at}, clients)
	grant, err := source.Exchange(t.Context())
	check(t, grant, err, "ya29.md", "", 1799*time.Second)
	ours = ""
	if _, err := source.Exchange(t.Context()); err == nil || !strings.Contains(err.Error(), "Metadata-Flavor") {
		t.Errorf("another server: %v", err)
	}
}

func TestFailures(t *testing.T) {
	_, text := newKey(t)
	for name, c := range map[string]struct {
		status       int
		answer, want string
	}{
		"a refusal": {http.StatusBadRequest, `{"error":"invalid_grant","error_description":"` + canary + `"}`, "status 400: invalid_grant"},
		"an API's":  {http.StatusForbidden, `{"error":{"code":403,"status":"PERMISSION_DENIED","message":"` + canary + `"}}`, "status 403: PERMISSION_DENIED"},
		"down":      {http.StatusBadGateway, canary, "status 502"},
		"no JSON":   {http.StatusOK, canary, "get a token"},
		"redirects": {http.StatusFound, canary, "redirects"},
		"nested":    {http.StatusOK, `{"access_token":` + strings.Repeat("[", 900_000), "get a token"},
		"too large": {http.StatusOK, strings.Repeat(canary, 1<<17), "get a token"},
	} {
		calls := 0
		at, clients := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		})
		account := file(t, map[string]string{"type": "service_account", "client_email": mail, "private_key": text, "token_uri": at})
		for _, config := range []identity.GCP{{CredentialsFile: account}, {Source: identity.SourceMetadata, MetadataURL: at}} {
			_, err := open(t, config, clients).Exchange(t.Context())
			if err == nil || strings.Contains(err.Error(), "canary") || c.status != http.StatusOK && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want an error that says %q without the token", name, err, c.want)
			}
		}
		if calls != 2 {
			t.Errorf("%s: %d calls of two exchanges", name, calls)
		}
	}
}

// A file that names what must not be called, read or run never reaches Google's library.
func TestCheck(t *testing.T) {
	external := func(source string) string {
		return `{"type":"external_account","token_url":"https://sts.googleapis.com/v1/token","credential_source":` + source + `}`
	}
	account := func(more string) string {
		return `{"type":"service_account","private_key":"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"` + more + `}`
	}
	for name, text := range map[string]string{
		"no JSON":               canary,
		"no type":               `{}`,
		"a user":                `{"type":"authorized_user","refresh_token":"canary"}`,
		"impersonation":         `{"type":"impersonated_service_account"}`,
		"no private key":        `{"type":"service_account","private_key":"canary"}`,
		"a plain token URI":     account(`,"token_uri":"http://canary.example.com/"`),
		"another universe":      account(`,"universe_domain":"canary.example.com"`),
		"a command":             external(`{"executable":{"command":"canary"}}`),
		"a command with a file": external(`{"file":"/canary","executable":{"command":"canary"}}`),
		"a certificate":         external(`{"certificate":{"use_default_certificate_config":true}}`),
		"AWS's environment":     external(`{"environment_id":"aws1","url":"https://canary"}`),
		"two sources":           external(`{"file":"/canary","url":"https://canary"}`),
		"a plain source":        external(`{"url":"http://canary.example.com/"}`),
		"a file scheme":         external(`{"url":"file:///canary"}`),
		"no source":             external(`{}`),
		"no token URL":          `{"type":"external_account","credential_source":{"file":"/t"}}`,
		"a plain token URL":     `{"type":"external_account","token_url":"http://canary.example.com","credential_source":{"file":"/t"}}`,
		"a plain impersonation": `{"type":"external_account","token_url":"https://sts.googleapis.com","service_account_impersonation_url":"http://canary.example.com","credential_source":{"file":"/t"}}`,
	} {
		_, err := Check([]byte(text))
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want an error that repeats nothing", name, err)
		}
		name := file(t, text)
		if _, err := open(t, identity.GCP{CredentialsFile: name}, identity.NewClients(refuse{t}, refuse{t})).Exchange(t.Context()); err == nil {
			t.Error("exchanged")
		}
	}
	for name, text := range map[string]string{
		"an account":                account(`,"token_uri":"https://oauth2.googleapis.com/token"`),
		"a file":                    external(`{"file":"/t"}`),
		"a source of this machine":  external(`{"url":"http://127.0.0.1:8/token"}`),
		"a source of this platform": external(`{"url":"http://169.254.169.254/metadata/identity/oauth2/token?resource=x","headers":{"Metadata":"True"}}`),
	} {
		if _, err := Check([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// refuse is a transport that must not be used.
type refuse struct{ t *testing.T }

func (r refuse) RoundTrip(request *http.Request) (*http.Response, error) {
	r.t.Errorf("called %s", request.URL)
	return nil, errors.New("refused")
}

func TestCheckGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) { _, _ = Check(text) })...)
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"type":"service_account","private_key":"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n","token_uri":"https://oauth2.googleapis.com/token"}`))
	f.Add([]byte(`{"type":"external_account","token_url":"https://sts.googleapis.com/v1/token","credential_source":{"url":"http://127.0.0.1/"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		declared, err := Check(text)
		if err != nil {
			return
		}
		if declared.Type != "service_account" && declared.Type != "external_account" {
			t.Errorf("type %q", declared.Type)
		}
		for _, at := range []string{declared.TokenURI, declared.TokenURL, declared.Impersonation} {
			if parsed, err := url.Parse(at); at != "" && (err != nil || parsed.Scheme != "https" && !identity.IsLoopback(parsed.Hostname())) {
				t.Errorf("calls %q", at)
			}
		}
	})
}
