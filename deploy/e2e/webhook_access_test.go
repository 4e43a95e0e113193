//go:build e2e

package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/examples/receivers/goreceiver"
)

// endpointCredential returns a new credential, and adds it to knownSecrets.
func endpointCredential(name string) string {
	text := unique("endpoint-" + name)
	knownSecrets.add("an endpoint's "+name, text)
	return text
}

// tokenServer issues a token for one client; any other is refused.
func tokenServer(t *testing.T, secret, token string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, password, _ := r.BasicAuth()
		if id != "shop" || password != secret || r.PostFormValue("grant_type") != "client_credentials" || r.PostFormValue("scope") != "hooks" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, token)
	}))
	t.Cleanup(server.Close)
	return server
}

// clientCertificate returns a self-signed client certificate and its key in PEM.
func clientCertificate(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	knownSecrets.add("an endpoint's client key", strings.Split(key, "\n")[1])
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), key
}

// certifiedReceiver is a receiver that demands a client certificate; it counts the requests that have it.
func certifiedReceiver(t *testing.T, certificate string) (server *httptest.Server, arrived *atomic.Int32) {
	t.Helper()
	arrived = new(atomic.Int32)
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived.Add(1)
	}))
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(certificate))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, arrived
}

// testOutcome is the answer to a test delivery.
type testOutcome struct {
	Delivery struct {
		Status    string  `json:"status"`
		LastError *string `json:"last_error"`
	} `json:"delivery"`
}

// A customer authenticates the deliveries of an endpoint in every way that there is. Each takes effect at the next
// delivery; nothing that is read shows a secret; the receiver has what it needs to verify each signature.
func TestEndpointAccess(t *testing.T) {
	t.Parallel()
	token, clientSecret := endpointCredential("access-token"), endpointCredential("client-secret")
	tokens := tokenServer(t, clientSecret, token)
	certificate, key := clientCertificate(t, "shop")
	certified, arrived := certifiedReceiver(t, certificate)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	h := plan{name: "access", settings: settings{stack.WebhookEgress: {
		"WEBHOOK_EGRESS_ALLOW_TARGETS=" + tokens.Listener.Addr().String() + "," + certified.Listener.Addr().String(), "SSL_CERT_FILE=" + roots,
	}}}.start(t)
	organization, to := unique("org"), h.receiver()
	customer := h.customer(t, organization, "webhooks", "write")
	reader := h.customer(t, organization, "webhooks", "read")
	const endpoints = "/product/v1/webhooks/endpoints"

	// Answers with a generated secret are not searched for secrets.
	created := customer.unrecorded(t, http.MethodPost, endpoints, object{
		"url": to.url(), "event_types": []string{"*"}, "signing_mode": "endpoint_body", "generate_secret": true, "signatures": []string{"v1", "v1a"},
	}).fields(t, http.StatusCreated, "endpoint_id", "generated_secret", "signatures")
	path := endpoints + "/" + fmt.Sprint(created["endpoint_id"])
	first := fmt.Sprint(created["generated_secret"])
	knownSecrets.add("a generated signing secret", first)

	var published struct {
		Keys []struct {
			Public string `json:"whpk"`
		} `json:"keys"`
	}
	h.anonymous(stack.WebhookEgress).get(t, "/v1/signing-keys").into(t, http.StatusOK, &published)
	reader.get(t, "/product/v1/webhooks/signing-keys").into(t, http.StatusOK, &published)
	if len(published.Keys) != 1 {
		t.Fatalf("published keys %+v", published)
	}
	// ping sends a test delivery and returns what arrived.
	ping := func(what string) arrival {
		t.Helper()
		before := len(to.arrivals(t))
		var outcome testOutcome
		customer.post(t, path+"/test", object{}).into(t, http.StatusOK, &outcome)
		all := to.arrivals(t)
		if outcome.Delivery.Status != "delivered" || len(all) != before+1 {
			t.Fatalf("%s: %+v, %d arrivals", what, outcome, len(all)-before)
		}
		return all[before]
	}
	verified := func(what string, a arrival, keys ...string) {
		t.Helper()
		for _, key := range keys {
			if !goreceiver.Standard(key, a.Headers, []byte(a.Body), time.Now()) {
				t.Errorf("%s: webhook-signature %s is not of the key %.9s…", what, a.Headers.Get("Webhook-Signature"), key)
			}
		}
	}
	a := ping("as registered")
	verified("as registered", a, first, published.Keys[0].Public)
	verifyBody(t, first, a)
	rotated := customer.unrecorded(t, http.MethodPost, path+"/rotate-secret", object{"overlap_seconds": 3600}).fields(t, http.StatusOK, "generated_secret")
	second := fmt.Sprint(rotated["generated_secret"])
	knownSecrets.add("a generated signing secret", second)
	a = ping("rotated")
	verified("rotated", a, first, second, published.Keys[0].Public)
	verifyBody(t, second, a)

	bearer, password, value := endpointCredential("token"), endpointCredential("password"), endpointCredential("header")
	for _, kind := range []struct {
		name         string
		auth         object
		header, want string
	}{
		{"bearer", object{"bearer": object{"token": bearer}}, "Authorization", "Bearer " + hashed(bearer)},
		{
			"basic",
			object{"basic": object{"username": "ann", "password": password}},
			"Authorization",
			"Basic " + hashed(base64.StdEncoding.EncodeToString([]byte("ann:"+password))),
		},
		{"header", object{"header": object{"name": "X-Api-Key", "value": value}}, "X-Api-Key", hashed(value)},
		{
			"oauth2",
			object{"oauth2": object{
				"token_url": tokens.URL, "client_id": "shop", "client_secret": clientSecret, "scopes": []string{"hooks"},
			}},
			"Authorization", "Bearer " + hashed(token),
		},
	} {
		customer.do(t, http.MethodPatch, path, object{"auth": kind.auth, "custom_headers": object{"X-Tenant": "shop-7"}}).want(t, http.StatusOK)
		if a := ping(kind.name); a.Headers.Get(kind.header) != kind.want || a.Headers.Get("X-Tenant") != "shop-7" {
			t.Errorf("%s: %s: %q, want %q; X-Tenant: %q", kind.name, kind.header, a.Headers.Get(kind.header), kind.want, a.Headers.Get("X-Tenant"))
		}
		shown := reader.get(t, path).fields(t, http.StatusOK, "auth", "custom_header_names", "generated_secret")
		if info, _ := shown["auth"].(map[string]any); info["kind"] != kind.name || fmt.Sprint(shown["custom_header_names"]) != "[X-Tenant]" || shown["generated_secret"] != nil {
			t.Errorf("%s: read as %v", kind.name, shown)
		}
	}

	customer.do(t, http.MethodPatch, path, object{"auth": object{"oauth2": object{
		"token_url": tokens.URL, "client_id": "shop", "client_secret": "another", "scopes": []string{"hooks"},
	}}}).want(t, http.StatusOK)
	var failed testOutcome
	customer.post(t, path+"/test", object{}).into(t, http.StatusOK, &failed)
	if failed.Delivery.Status != "failed" || failed.Delivery.LastError == nil || *failed.Delivery.LastError != "token_failed" {
		t.Errorf("without a token: %+v", failed)
	}

	refused := customer.do(t, http.MethodPatch, path, object{"auth": object{"mtls": object{"certificate": certificate, "key": key}}})
	refused.want(t, http.StatusBadRequest)
	if !strings.Contains(string(refused.body), "auth.mtls: needs a url with https") {
		t.Errorf("a certificate for a URL with http: %s", refused.body)
	}
	moved := object{"url": certified.URL, "auth": object{"mtls": object{"certificate": certificate, "key": key}}}
	customer.do(t, http.MethodPatch, path, moved).refused(t, http.StatusBadRequest, "invalid_request", "custom_headers")
	customer.do(t, http.MethodPatch, path, moved.with(object{"custom_headers": object{"X-Tenant": "shop-7"}})).want(t, http.StatusOK)
	var outcome testOutcome
	customer.post(t, path+"/test", object{}).into(t, http.StatusOK, &outcome)
	if outcome.Delivery.Status != "delivered" || arrived.Load() != 1 {
		t.Errorf("with a client certificate: %+v, %d arrivals", outcome, arrived.Load())
	}

	customer.do(t, http.MethodPatch, path, object{"url": to.url(), "auth": object{"none": object{}}, "custom_headers": object{"X-Tenant": ""}}).want(t, http.StatusOK)
	if a := ping("removed"); a.Headers.Get("Authorization") != "" || a.Headers.Get("X-Tenant") != "" {
		t.Errorf("removed, but sent: %v", a.Headers)
	}
	shown := reader.get(t, path).fields(t, http.StatusOK, "auth", "custom_header_names")
	if shown["auth"] != nil || fmt.Sprint(shown["custom_header_names"]) != "[]" {
		t.Errorf("removed, but read as %v", shown)
	}
	stranger := h.customer(t, unique("org"), "webhooks", "write")
	stranger.post(t, path+"/rotate-secret", object{}).want(t, http.StatusNotFound)
}
