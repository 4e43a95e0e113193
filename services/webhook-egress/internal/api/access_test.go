package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// certificate returns a client certificate and its key in PEM, as JSON strings.
func certificate(t *testing.T) (chain, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		quoted, _ := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
		return string(quoted)
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", pkcs8)
}

// Each kind of authentication reaches the domain as it was asked for, at registration and in a change.
func TestEndpointAuth(t *testing.T) {
	chain, key := certificate(t)
	for name, tt := range map[string]struct {
		body string
		want auth.Info
		text string // the secret
	}{
		"bearer": {`{"bearer":{"token":"` + canary + `"}}`, auth.Info{Kind: auth.Bearer}, canary},
		"basic":  {`{"basic":{"username":"ann","password":"` + canary + `"}}`, auth.Info{Kind: auth.Basic}, "ann:" + canary},
		"header": {`{"header":{"name":"x-key","value":"` + canary + `"}}`, auth.Info{Kind: auth.Header, HeaderName: "X-Key"}, canary},
		"oauth2": {
			`{"oauth2":{"token_url":"https://a.b/t","client_id":"c","client_secret":"` + canary + `","scopes":["r","w"],"audience":"d","auth_style":"client_secret_post"}}`,
			auth.Info{Kind: auth.OAuth2, TokenURL: "https://a.b/t", ClientID: "c", Scopes: []string{"r", "w"}, Audience: "d", Style: "client_secret_post"},
			canary,
		},
		"oauth2, by default": {
			`{"oauth2":{"token_url":"https://a.b/t","client_id":"c","client_secret":"` + canary + `"}}`,
			auth.Info{Kind: auth.OAuth2, TokenURL: "https://a.b/t", ClientID: "c", Style: "client_secret_basic"},
			canary,
		},
		"mtls": {`{"mtls":{"certificate":` + chain + `,"key":` + key + `}}`, auth.Info{Kind: auth.MTLS}, "-----BEGIN PRIVATE KEY-----"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &domain{}
			h := newServer(t, d).Handler()
			call(t, h, "POST", "/v1/endpoints", `{"url":"https://a.b","event_types":["a"],"auth":`+tt.body+`}`)
			call(t, h, "PATCH", "/v1/endpoints/x", `{"auth":`+tt.body+`}`)
			if len(d.asked) != 2 {
				t.Fatalf("asked %v", d.asked)
			}
			registered, _ := d.asked[0].(endpoint.Registration)
			changed, _ := d.asked[1].([]any)[2].(endpoint.Update)
			for _, r := range []*endpoint.AuthRequest{registered.Auth, changed.Auth} {
				if r == nil || r.None || !strings.HasPrefix(r.Auth.Secret.Reveal(), tt.text) {
					t.Fatalf("asked %+v", r)
				}
				got := r.Auth.Info
				if (got.Certificate != nil) != (got.Kind == auth.MTLS) {
					t.Errorf("certificate %+v", got.Certificate)
				}
				got.Certificate = nil
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
			}
		})
	}
	d := &domain{}
	call(t, newServer(t, d).Handler(), "PATCH", "/v1/endpoints/x", `{"auth":{"none":{}},"custom_headers":{"X-A":"b","X-C":""},"signatures":["v1a"]}`)
	want := endpoint.Update{
		Auth: &endpoint.AuthRequest{None: true}, Headers: map[string]string{"X-A": "b", "X-C": ""}, Signatures: []string{"v1a"},
	}
	if diff := cmp.Diff(want, d.asked[0].([]any)[2], same); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// Reads show what is not secret, in the kind's own fields.
func TestReadsShowNoSecret(t *testing.T) {
	d := &domain{generated: secret.New(canary), endpoint: endpoint.Endpoint{
		ID: anID, Headers: map[string][]byte{"X-B": []byte(canary), "X-A": []byte(canary)}, SealedAuth: []byte(canary), Signatures: []string{"spec", "v1a"},
		Auth: &auth.Info{Kind: auth.OAuth2, TokenURL: "https://a.b/t", ClientID: "c", Scopes: []string{"r"}, Style: auth.StylePost},
	}}
	h := newServer(t, d).Handler()
	w, document := call(t, h, "GET", "/v1/endpoints/x", "")
	want := map[string]any{
		"kind": "oauth2", "header_name": nil, "token_url": "https://a.b/t", "client_id": "c", "scopes": []any{"r"}, "audience": nil,
		"auth_style": "client_secret_post", "certificate": nil,
	}
	if diff := cmp.Diff(want, document["auth"]); diff != "" {
		t.Errorf("auth (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"X-A", "X-B"}, document["custom_header_names"]); diff != "" {
		t.Errorf("custom_header_names (-want +got):\n%s", diff)
	}
	if _, named := document["signing_secret"]; named || document["generated_secret"] != nil || fmt.Sprint(document["signatures"]) != "[spec v1a]" {
		t.Errorf("document %v", document)
	}
	testkit.NoLeak(t, canary, w.Body.String())
	d.endpoint.Auth = &auth.Info{Kind: auth.MTLS, Certificate: &auth.Certificate{Subject: "CN=acme", Fingerprint: "ab", NotAfter: moment}}
	_, document = call(t, h, "GET", "/v1/endpoints/x", "")
	shown, _ := document["auth"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"subject": "CN=acme", "fingerprint_sha256": "ab", "not_after": "2023-11-14T22:13:20Z"}, shown["certificate"]); diff != "" {
		t.Errorf("certificate (-want +got):\n%s", diff)
	}
}

// A generated secret is in the response to the request that generated it, and in no other.
func TestGeneratedSecretIsShownOnce(t *testing.T) {
	d := &domain{generated: secret.New(canary), endpoint: endpoint.Endpoint{ID: anID}}
	h := newServer(t, d).Handler()
	w, document := call(t, h, "POST", "/v1/endpoints", `{"url":"https://a.b","event_types":["a"],"signing_mode":"endpoint_body","generate_secret":true}`)
	if w.Code != http.StatusCreated || document["generated_secret"] != canary {
		t.Errorf("status %d, %v", w.Code, document)
	}
	for body, overlap := range map[string]*time.Duration{`{}`: nil, `{"overlap_seconds":0}`: new(time.Duration(0)), `{"overlap_seconds":60}`: new(time.Minute)} {
		d.asked = nil
		w, document = call(t, h, "POST", "/v1/endpoints/x/rotate-secret", body, "X-Owner-Id", "ann")
		if w.Code != http.StatusOK || document["generated_secret"] != canary {
			t.Errorf("status %d, %v", w.Code, document)
		}
		if diff := cmp.Diff([]any{[]any{endpoint.Scope{Organization: "default", Owner: "ann"}, "x", overlap}}, d.asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	}
	if w, document := call(t, h, "PATCH", "/v1/endpoints/x", `{}`); document["generated_secret"] != nil {
		t.Errorf("a change shows it: %s", w.Body)
	}
}

func TestRefusedAccess(t *testing.T) {
	h := newServer(t, &domain{}).Handler()
	oauth := func(change string) string {
		return `{"auth":{"oauth2":{"token_url":"https://a.b","client_id":"c","client_secret":"` + canary + `",` + change + `}}}`
	}
	for name, tt := range map[string]struct{ body, text string }{
		"no kind":               {`{"auth":{}}`, "auth"},
		"two kinds":             {`{"auth":{"bearer":{"token":"` + canary + `"},"none":{}}}`, "auth"},
		"another kind":          {`{"auth":{"digest":{"token":"` + canary + `"}}}`, "digest"},
		"no token":              {`{"auth":{"bearer":{}}}`, "token"},
		"a long token":          {`{"auth":{"bearer":{"token":"` + strings.Repeat(canary, 500) + `"}}}`, "token"},
		"a token with spaces":   {`{"auth":{"bearer":{"token":"` + canary + ` x"}}}`, "auth.bearer.token"},
		"a token that is a map": {`{"auth":{"bearer":{"token":{"v":"` + canary + `"}}}}`, "token"},
		"a user with a colon":   {`{"auth":{"basic":{"username":"a:b","password":"` + canary + `"}}}`, "auth.basic.username"},
		"a reserved header":     {`{"auth":{"header":{"name":"Host","value":"` + canary + `"}}}`, "auth.header"},
		"a scope with a space":  {oauth(`"scopes":["a b"]`), "scopes"},
		"a scope with a quote":  {oauth(`"scopes":["a\"b"]`), "scopes"},
		"a scope twice":         {oauth(`"scopes":["a","a"]`), "scopes"},
		"a style":               {oauth(`"auth_style":"private_key_jwt"`), "auth_style"},
		"no certificate":        {`{"auth":{"mtls":{"certificate":"` + canary + `","key":"` + canary + `"}}}`, "auth.mtls.certificate"},
		"33 headers":            {`{"custom_headers":` + headers(33) + `}`, "custom_headers"},
		"a long value":          {`{"custom_headers":{"X-A":"` + strings.Repeat("a", 4097) + `"}}`, "custom_headers"},
		"an unknown signature":  {`{"signatures":["v2"]}`, "signatures"},
		"a signature twice":     {`{"signatures":["v1","v1"]}`, "signatures"},
	} {
		t.Run(name, func(t *testing.T) {
			w, document := call(t, h, "PATCH", "/v1/endpoints/x", tt.body)
			if w.Code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(document["reason"]), tt.text) {
				t.Errorf("status %d, %v", w.Code, document)
			}
			testkit.NoLeak(t, canary, w.Body.String())
		})
	}
	if w, document := call(t, h, "POST", "/v1/endpoints/x/rotate-secret", `{"overlap_seconds":604801}`); w.Code != http.StatusBadRequest {
		t.Errorf("a long overlap: status %d, %v", w.Code, document)
	}
}

// headers is a JSON object of n headers.
func headers(n int) string {
	all := make(map[string]string, n)
	for i := range n {
		all[fmt.Sprint("X-", i)] = "a"
	}
	text, _ := json.Marshal(all)
	return string(text)
}

// The signing keys are public, and may be cached.
func TestSigningKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	// The key of RFC 8037, appendix A, and one more.
	const seed = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
	testkit.WriteFile(t, file, "whsk_"+seed+"\nwhsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n")
	keys, err := signing.OpenKeys(secret.File(file), testkit.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		keys *signing.KeySet
		want int
	}{"none": {nil, 0}, "two": {keys, 2}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/signing-keys", nil)
		if err != nil {
			t.Fatal(err)
		}
		w := serve(newServer(t, &domain{keys: tt.keys}).Handler(), r)
		var set struct {
			Keys []map[string]string `json:"keys"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || w.Code != http.StatusOK || set.Keys == nil || len(set.Keys) != tt.want {
			t.Fatalf("%s: status %d, %s, %v", name, w.Code, w.Body, err)
		}
		if got := w.Header().Get("Cache-Control"); got != "public, max-age=300" {
			t.Errorf("%s: Cache-Control: %s", name, got)
		}
		if tt.want == 0 {
			continue
		}
		want := map[string]string{
			"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "alg": "EdDSA", "use": "sig",
			"kid": "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k", "whpk": "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
		}
		if diff := cmp.Diff(want, set.Keys[0]); diff != "" {
			t.Errorf("the first key (-want +got):\n%s", diff)
		}
		testkit.NoLeak(t, seed, w.Body.String())
	}
}
