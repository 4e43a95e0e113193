package oauth

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/secret"
)

// The whole conversation, byte for byte.
func TestWire(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world, c *toolserver.OAuth)
		want   []string
		form   string
	}{
		"a secret": {
			nil,
			[]string{"GET /.well-known/oauth-protected-resource/mcp", "GET /.well-known/oauth-authorization-server/tenant", "POST /token"},
			"Basic YWdlbnQrb25lOnMzY3IzdCtjYW5hcnklMkYlMkIlM0E=\ngrant_type=client_credentials&resource=URL%2Fmcp&scope=tools%3Aread+tools%3Acall",
		},
		"without scopes, in the form": {
			func(_ *world, c *toolserver.OAuth) { c.Scopes, c.Authentication = nil, toolserver.AuthenticationPost },
			[]string{"GET /.well-known/oauth-protected-resource/mcp", "GET /.well-known/oauth-authorization-server/tenant", "POST /token"},
			"\nclient_id=agent+one&client_secret=s3cr3t+canary%2F%2B%3A&grant_type=client_credentials&resource=URL%2Fmcp",
		},
		"in the form, as the metadata says, at the last place": {
			func(w *world, c *toolserver.OAuth) {
				c.Scopes = nil
				w.says("/.well-known/oauth-authorization-server/tenant", "")
				w.answer("/.well-known/openid-configuration/tenant", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "<html>") })
				w.says("/tenant/.well-known/openid-configuration",
					`{"issuer":"URL/tenant","token_endpoint":"URL/token","token_endpoint_auth_methods_supported":["client_secret_post"],"grant_types_supported":["client_credentials"]}`)
			},
			[]string{
				"GET /.well-known/oauth-protected-resource/mcp", "GET /.well-known/oauth-authorization-server/tenant", "GET /.well-known/openid-configuration/tenant",
				"GET /tenant/.well-known/openid-configuration", "POST /token",
			},
			"\nclient_id=agent+one&client_secret=s3cr3t+canary%2F%2B%3A&grant_type=client_credentials&resource=URL%2Fmcp",
		},
		"a resource of the root": {
			func(w *world, c *toolserver.OAuth) {
				c.Scopes = nil
				w.says("/.well-known/oauth-protected-resource/mcp", "")
				w.says("/.well-known/oauth-protected-resource", `{"resource":"URL","authorization_servers":["URL/other","URL/tenant"]}`)
			},
			[]string{
				"GET /.well-known/oauth-protected-resource/mcp", "GET /.well-known/oauth-protected-resource", "GET /.well-known/oauth-authorization-server/tenant", "POST /token",
			},
			"Basic YWdlbnQrb25lOnMzY3IzdCtjYW5hcnklMkYlMkIlM0E=\ngrant_type=client_credentials&resource=URL",
		},
		"a server that names its metadata in a challenge": {
			func(w *world, c *toolserver.OAuth) {
				c.Scopes = nil
				w.says("/.well-known/oauth-protected-resource/mcp", "")
				w.answer("/mcp", challenge(`Basic realm="a, b", Bearer error="invalid_token", resource_metadata="`+w.URL+`/meta"`))
				w.says("/meta", `{"resource":"URL/mcp/","authorization_servers":["URL/tenant"]}`)
			},
			[]string{
				"GET /.well-known/oauth-protected-resource/mcp", "GET /.well-known/oauth-protected-resource", "POST /mcp", "GET /meta",
				"GET /.well-known/oauth-authorization-server/tenant", "POST /token",
			},
			"Basic YWdlbnQrb25lOnMzY3IzdCtjYW5hcnklMkYlMkIlM0E=\ngrant_type=client_credentials&resource=URL%2Fmcp%2F",
		},
		"a server without metadata, another resource": {
			func(w *world, c *toolserver.OAuth) {
				c.Scopes, c.Resource = nil, "api://tools"
				w.says("/.well-known/oauth-protected-resource/mcp", "")
			},
			[]string{
				"GET /.well-known/oauth-protected-resource/mcp", "GET /.well-known/oauth-protected-resource", "POST /mcp",
				"GET /.well-known/oauth-authorization-server/tenant", "POST /token",
			},
			"Basic YWdlbnQrb25lOnMzY3IzdCtjYW5hcnklMkYlMkIlM0E=\ngrant_type=client_credentials&resource=api%3A%2F%2Ftools",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.oauth()
			if test.change != nil {
				test.change(w, c)
			}
			before := time.Now()
			granted, err := w.exchange(t, c)
			if err != nil || granted.Token.Reveal() != "tok" {
				t.Fatalf("%+v, %v", granted, err)
			}
			if life := granted.Expires.Sub(before); life < 10*time.Minute || life > 11*time.Minute {
				t.Errorf("lives %v", life)
			}
			if diff := cmp.Diff(test.want, w.requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{strings.ReplaceAll(test.form, "URL", url.QueryEscape(w.URL))}, w.forms); diff != "" {
				t.Errorf("the request for a token (-want +got):\n%s", diff)
			}
		})
	}
}

// challenge refuses with the value of WWW-Authenticate.
func challenge(value string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", value)
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// An assertion is for the issuer, short-lived, and signed with the key.
func TestAssertion(t *testing.T) {
	w := newWorld(t)
	key, text := newKey(t)
	c := w.oauth()
	c.Authentication, c.KeyID = toolserver.AuthenticationKey, "k1"
	w.says("/.well-known/oauth-authorization-server/tenant", `{"issuer":"URL/tenant","token_endpoint":"URL/token","token_endpoint_auth_signing_alg_values_supported":["ES256"]}`)
	if _, err := w.source(c, text).Exchange(t.Context()); err != nil {
		t.Fatal(err)
	}
	header, body, _ := strings.Cut(w.forms[0], "\n")
	form, err := url.ParseQuery(body)
	if err != nil || header != "" || form.Get("client_secret") != "" {
		t.Fatalf("%s, %v", w.forms[0], err)
	}
	signed := form.Get("client_assertion")
	form.Del("client_assertion")
	if got := form.Encode(); got != "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_id=agent+one&grant_type=client_credentials&resource="+
		url.QueryEscape(w.URL+"/mcp")+"&scope=tools%3Aread+tools%3Acall" {
		t.Errorf("the form: %s", got)
	}
	claims := jwt.MapClaims{}
	parsed, err := jwt.ParseWithClaims(signed, claims, func(*jwt.Token) (any, error) { return &key.PublicKey, nil }, jwt.WithValidMethods([]string{"ES256"}))
	if err != nil || parsed.Header["kid"] != "k1" {
		t.Fatalf("%v, %v", parsed, err)
	}
	if claims["aud"] != w.URL+"/tenant" || claims["iss"] != "agent one" || claims["sub"] != "agent one" || claims["exp"].(float64)-claims["iat"].(float64) != 60 || len(claims["jti"].(string)) < 32 {
		t.Errorf("%v", claims)
	}
	w.says("/.well-known/oauth-authorization-server/tenant", `{"issuer":"URL/tenant","token_endpoint":"URL/token","token_endpoint_auth_signing_alg_values_supported":["RS256"]}`)
	if _, err := w.source(c, text).Exchange(t.Context()); err == nil || !strings.Contains(err.Error(), "ES256") {
		t.Errorf("an algorithm that isn't taken: %v", err)
	}
}

func TestCheckSecret(t *testing.T) {
	w := newWorld(t)
	_, ec := newKey(t)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		way  toolserver.Authentication
		text string
		ok   bool
	}{
		"a secret": {"", canary, true}, "with the end of a line": {"", canary + "\r\n", true}, "short": {"client_secret_post", "1234567", false},
		"empty": {"", "", false}, "two lines": {"", "12345678\n1", false}, "not ASCII": {"client_secret_basic", "12345678é", false},
		"long": {"", strings.Repeat("a", 2049), false}, "P-256": {toolserver.AuthenticationKey, ec, true}, "Ed25519": {toolserver.AuthenticationKey, pemOf(t, ed), true},
		"RSA": {toolserver.AuthenticationKey, pemOf(t, long), true}, "a short RSA": {toolserver.AuthenticationKey, pemOf(t, short), false},
		"no PEM": {toolserver.AuthenticationKey, canary, false}, "two keys": {toolserver.AuthenticationKey, ec + ec, false},
		"a broken key": {toolserver.AuthenticationKey, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", false},
		"a long key":   {toolserver.AuthenticationKey, ec + strings.Repeat(" ", maxKey), false},
	} {
		if err := w.client.CheckSecret(test.way, secret.New(test.text)); (err == nil) != test.ok || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The issuer that a server names, where the registration has none.
func TestIssuer(t *testing.T) {
	w := newWorld(t)
	if got, err := w.client.Issuer(t.Context(), w.URL+"/mcp"); err != nil || got != w.URL+"/tenant" {
		t.Errorf("%s, %v", got, err)
	}
	w.says("/.well-known/oauth-protected-resource/mcp", `{"resource":"URL/mcp","authorization_servers":["URL/a","URL/b"]}`)
	if _, err := w.client.Issuer(t.Context(), w.URL+"/mcp"); err == nil {
		t.Error("one of several was chosen")
	}
	w.says("/.well-known/oauth-protected-resource/mcp", "")
	if _, err := w.client.Issuer(t.Context(), w.URL+"/mcp"); err == nil {
		t.Error("without metadata")
	}
}

// Metadata is read once an hour, and anew after a failure. The secret is read for each token: replacing it is the
// rotation.
func TestMetadataIsKept(t *testing.T) {
	w := newWorld(t)
	current, reads := "first secret", 0
	s := w.client.Source(&toolserver.Server{URL: w.URL + "/mcp", Credential: toolserver.Credential{OAuth: w.oauth()}}, func(context.Context) (secret.Value, error) {
		reads++
		return secret.New(current), nil
	})
	s.oauth.Authentication = toolserver.AuthenticationPost
	exchange := func(want int) {
		t.Helper()
		before := len(w.requests())
		if _, err := s.Exchange(t.Context()); err != nil || len(w.requests())-before != want {
			t.Errorf("%v after %d requests, want %d", err, len(w.requests())-before, want)
		}
	}
	exchange(3)
	exchange(1)
	s.at = s.at.Add(-2 * keepMetadata)
	exchange(3)
	s.Forget()
	exchange(3)
	w.answer("/token", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(rw, `{"error":"invalid_client","error_description":"`+canary+`"}`)
	})
	_, err := s.Exchange(t.Context())
	if e, ok := errors.AsType[*Error](err); !ok || e.Text != "the authorization server answered with status 401: invalid_client" {
		t.Errorf("%v", err)
	}
	w.says("/token", `{"access_token":"new","token_type":"bearer"}`)
	current = "second secret"
	exchange(3)
	if !strings.Contains(w.forms[len(w.forms)-1], "second+secret") || !slices.ContainsFunc(w.forms, func(f string) bool { return strings.Contains(f, "first+secret") }) || reads != 6 {
		t.Errorf("%d reads, forms %q", reads, w.forms)
	}
}
