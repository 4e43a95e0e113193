package api_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/oauth"
	"switchyard.dev/services/platform/testkit"
)

// namedIssuers names the authorization servers of servers whose hosts begin with "own" or "other".
type namedIssuers struct{ *oauth.Client }

func (namedIssuers) Issuer(_ context.Context, serverURL string) (string, error) {
	switch {
	case strings.HasPrefix(serverURL, "https://own"):
		return "https://own.example/tenant", nil
	case strings.HasPrefix(serverURL, "https://other"):
		return "https://evil.example", nil
	}
	return "", &oauth.Error{Text: "the server has no metadata of a protected resource"}
}

func privateKey(t *testing.T) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize))))
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// A client of OAuth is registered with a secret by reference or sealed, and shown without it.
func TestToolServerOAuth(t *testing.T) {
	b := setup(t)
	b.keep(t, "acme", "client.secret", "s3cr3t of a client")
	made := b.registers(t, "files", `,"credential":{"secret_ref":"file:client.secret","oauth":{"client_id":"agent","issuer":"https://auth.example/t",`+
		`"scopes":["a:b","c"],"resource":"https://files.example","authentication":"client_secret_post","token_endpoint":"https://tokens.example/t"}}`)
	want := fields{"custody": "secret_ref", "header": "Authorization", "scheme": "Bearer"}
	client := fields{
		"client_id": "agent", "issuer": "https://auth.example/t", "resource": "https://files.example", "authentication": "client_secret_post",
		"token_endpoint": "https://tokens.example/t", "key_id": "",
	}
	for _, shown := range []map[string]any{made, b.see(t, serversPath+"/files").fields(t, 200)} {
		credential := shown["credential"].(map[string]any)
		has(t, credential, want)
		has(t, credential["oauth"].(map[string]any), client)
	}
	own := b.registers(t, "own", `,"credential":{"secret_ref":"file:client.secret","oauth":{"client_id":"agent"}}`)
	has(t, own["credential"].(map[string]any)["oauth"].(map[string]any), fields{"issuer": "https://own.example/tenant", "authentication": ""})

	key := b.sealed(t, "acme", "mcp/keyed", privateKey(t))
	keyed := b.registers(t, "keyed", `,"credential":{"sealed":`+key+`,"oauth":{"client_id":"agent","key_id":"k1","authentication":"private_key_jwt","issuer":"https://auth.example"}}`)
	has(t, keyed["credential"].(map[string]any), fields{"custody": "sealed"})

	// Another credential takes the client's place, and a client a credential's.
	b.keep(t, "acme", "key", ownKey)
	changed := b.say(t, http.MethodPatch, serversPath+"/files", `{"credential":{"secret_ref":"file:key"}}`).fields(t, 200)
	has(t, changed["credential"].(map[string]any), fields{"oauth": nil})
	changed = b.say(t, http.MethodPatch, serversPath+"/files", `{"credential":{"secret_ref":"file:client.secret","oauth":{"client_id":"two","issuer":"https://auth.example"}}}`).fields(t, 200)
	has(t, changed["credential"].(map[string]any)["oauth"].(map[string]any), fields{"client_id": "two"})
	// A secret is for the server that it was set for.
	b.say(t, http.MethodPatch, serversPath+"/files", `{"url":"https://evil.example/mcp"}`).refused(t, 400, "invalid_request", "credential")
	b.say(t, http.MethodDelete, serversPath+"/files", "").gives(t, 204)
	testkit.NoLeak(t, "s3cr3t of a client", b.toolRows(t), b.log.String())
	testkit.NoLeak(t, "BEGIN PRIVATE KEY", b.toolRows(t), b.log.String())
}

func TestToolServerOAuthRefusals(t *testing.T) {
	b := setup(t)
	b.keep(t, "acme", "client.secret", "s3cr3t of a client")
	b.keep(t, "acme", "short", "1234567")
	const bad = "invalid_request"
	for name, test := range map[string]struct{ host, credential, reason, text string }{
		"no secret":            {"files", `"oauth":{"client_id":"a","issuer":"https://auth.example"}`, bad, "exactly one of secret_ref and sealed"},
		"a plain secret":       {"files", `"oauth":{"client_id":"a","client_secret":"sk-proj-0123456789abcdefghijABCDEFGHIJ"}`, "raw_key_refused", ""},
		"no id":                {"files", `"secret_ref":"file:client.secret","oauth":{"issuer":"https://auth.example"}`, bad, "client_id"},
		"a header":             {"files", `"secret_ref":"file:client.secret","header":"X-Key","oauth":{"client_id":"a","issuer":"https://auth.example"}`, bad, "credential.header"},
		"a scheme":             {"files", `"secret_ref":"file:client.secret","scheme":"","oauth":{"client_id":"a","issuer":"https://auth.example"}`, bad, "credential.header"},
		"a short secret":       {"files", `"secret_ref":"file:short","oauth":{"client_id":"a","issuer":"https://auth.example"}`, bad, "8 to 2048"},
		"no key":               {"files", `"secret_ref":"file:client.secret","oauth":{"client_id":"a","authentication":"private_key_jwt","issuer":"https://auth.example"}`, bad, "in PEM"},
		"a key id without key": {"files", `"secret_ref":"file:client.secret","oauth":{"client_id":"a","key_id":"k","issuer":"https://auth.example"}`, bad, "key_id"},
		"another way":          {"files", `"secret_ref":"file:client.secret","oauth":{"client_id":"a","authentication":"tls_client_auth","issuer":"https://auth.example"}`, bad, "authentication"},
		"a scope with a space": {"files", `"secret_ref":"file:client.secret","oauth":{"client_id":"a","scopes":["a b"],"issuer":"https://auth.example"}`, bad, "scopes"},
		"a plain issuer":       {"files", `"secret_ref":"file:client.secret","oauth":{"client_id":"a","issuer":"http://auth.example"}`, "target_not_allowed", "credential.oauth.issuer"},
		"an inner issuer":      {"files", `"secret_ref":"file:client.secret","oauth":{"client_id":"a","issuer":"https://169.254.169.254"}`, "target_not_allowed", "credential.oauth.issuer"},
		"an issuer's query":    {"files", `"secret_ref":"file:client.secret","oauth":{"client_id":"a","issuer":"https://auth.example?x=1"}`, bad, "credential.oauth.issuer"},
		"an inner endpoint":    {"files", `"secret_ref":"file:client.secret","oauth":{"client_id":"a","issuer":"https://auth.example","token_endpoint":"https://10.0.0.1/t"}`, "target_not_allowed", "credential.oauth.token_endpoint"},
		"a resource's part":    {"files", `"secret_ref":"file:client.secret","oauth":{"client_id":"a","issuer":"https://auth.example","resource":"https://a.example/#b"}`, bad, "credential.oauth.resource"},
		"no URI":               {"files", `"secret_ref":"file:client.secret","oauth":{"client_id":"a","issuer":"https://auth.example","resource":"tools"}`, bad, "credential.oauth.resource"},
		"no metadata":          {"files", `"secret_ref":"file:client.secret","oauth":{"client_id":"a"}`, bad, "has no metadata"},
		"an issuer elsewhere":  {"other", `"secret_ref":"file:client.secret","oauth":{"client_id":"a"}`, bad, "of another origin than its own"},
	} {
		t.Run(name, func(t *testing.T) {
			a := b.post(t, serversPath, `{"server_id":"`+test.host+`","url":"https://`+test.host+`.example/mcp","registered_by":"ada","credential":{`+test.credential+`}}`)
			a.refused(t, 400, test.reason, test.text)
		})
	}
	b.post(t, serversPath, `{"server_id":"cmd","command":"git","credential":{"secret_ref":"file:client.secret","oauth":{"client_id":"a","issuer":"https://auth.example"}}}`, operatorOfAcme...).
		refused(t, 400, bad, "must not be set for a command")
	testkit.NoLeak(t, "s3cr3t of a client", b.toolRows(t), b.log.String())
}
