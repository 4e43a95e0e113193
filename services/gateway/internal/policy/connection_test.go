package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parseProvider parses a policy of one provider with further settings.
func parseProvider(settings string) (*Provider, error) {
	p, err := Parse(Source{KeysDir: "/keys", Text: []byte("default_model: one/m\nproviders:\n  - name: one\n    dialect: openai\n    base_url: https://one.example\n    models: [m]\n" + settings)}, Source{})
	if err != nil {
		return nil, err
	}
	return &p.Providers[0], nil
}

// The paths of a provider's files are absolute, and values are read in each of their forms.
func TestConnection(t *testing.T) {
	got, err := parseProvider(`
    headers: {X-Title: acme, x-token: {file: token}}
    proxy: {url: "http://proxy.example:3128", credentials_file: proxy.key}
    ca_file: /etc/ca.pem
`)
	if err != nil {
		t.Fatal(err)
	}
	want := Connection{
		Headers: map[string]HeaderValue{"X-Title": {Value: "acme"}, "x-token": {File: "/keys/token"}},
		Proxy:   Proxy{URL: "http://proxy.example:3128", CredentialsFile: "/keys/proxy.key"}, CAFile: "/etc/ca.pem",
	}
	if diff := cmp.Diff(want, got.Connection); diff != "" {
		t.Errorf("connection (-want +got):\n%s", diff)
	}
	for text, want := range map[string]Proxy{"direct": {Direct: true}, "http://p": {URL: "http://p"}} {
		if got, err := parseProvider("    proxy: " + text + "\n"); err != nil || got.Proxy != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestPool(t *testing.T) {
	got, err := parseProvider(`
    credential_choice: sticky
    credentials:
      - {name: a, key_file: a.key}
      - {name: b, key_file: /b.key, weight: 3, drain: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Credential{{Name: "a", KeyFile: "/keys/a.key", Weight: 1}, {Name: "b", KeyFile: "/b.key", Weight: 3, Drain: true}}
	if diff := cmp.Diff(want, got.Pool()); diff != "" || got.CredentialChoice != ChoiceSticky {
		t.Errorf("choice %s, pool (-want +got):\n%s", got.CredentialChoice, diff)
	}
	got, err = parseProvider("    credentials: [{name: a, oidc: {vendor: openai, token_file: t, identity_provider_id: i, service_account_id: s}}]\n")
	if err != nil || got.Pool()[0].OIDC == nil || got.Pool()[0].OIDC.TokenFile != "/keys/t" || got.Pool()[0].OIDC.TokenURL == "" {
		t.Errorf("%+v, %v; want a complete identity", got, err)
	}
	if got, err := parseProvider("    key_file: one.key\n"); err != nil || !cmp.Equal([]Credential{{KeyFile: "/keys/one.key"}}, got.Pool()) {
		t.Errorf("%+v, %v; want a pool of the one key", got, err)
	}
	if got, err := parseProvider(""); err != nil || got.Pool() != nil {
		t.Errorf("%+v, %v; want no credential", got, err)
	}
}

// A wrong setting is named with its rule, and no value that may be a secret is repeated.
func TestConnectionAndPoolRefuse(t *testing.T) {
	for settings, want := range map[string]string{
		"    headers: {Host: a}":                                                             `headers."Host": can't be set`,
		"    headers: {proxy-authorization: canary}":                                         `can't be set`,
		"    headers: {'a b': c}":                                                            "not a valid header name",
		"    headers: {X-A: ''}":                                                             "want a value, or a file",
		"    headers: {X-A: {file: f, value: canary}}":                                       "no such field",
		"    headers: {X-A: a, x-a: b}":                                                      "appears twice",
		"    headers: {X-A: \"a\\nb\"}":                                                      "printable",
		"    headers: {Authorization: Bearer canary}":                                        "put it into a file",
		"    headers: {X-Key: sk-proj-canarycanarycanarycanarycanary12345678}":               "put it into a file",
		"    proxy: {credentials_file: f}":                                                   "proxy.url: is missing",
		"    proxy: http://user:canary@p":                                                    "proxy.url: holds a user",
		"    key_header: 'a b'":                                                              "key_header: not a valid header name",
		"    key_file: k\n    credentials: [{name: a, key_file: k}]":                         "key_file: is given beside credentials",
		"    credentials: [{name: a, key_file: k}, {name: a, key_file: l}]":                  `credentials[1] "a": name: appears twice`,
		"    credentials: [{key_file: k}]":                                                   "name: want",
		"    credentials: [{name: a}]":                                                       "want key_file, aws, gcp, azure or oidc",
		"    credentials: [{name: a, key_file: k, oidc: {vendor: openai}}]":                  "key_file: is given beside an identity",
		"    credentials: [{name: a, aws: {source: instance}}]":                              `credentials[0] "a": aws.`,
		"    credentials: [{name: a, oidc: {vendor: openai}}]":                               "oidc.token_file",
		"    credentials: [{name: a, key_file: k, weight: 1001}]":                            "weight: want 1 to 1000",
		"    credentials: [{name: a, key_file: k, weight: -1}]":                              "weight: want 1 to 1000",
		"    credential_choice: best":                                                        "credential_choice: want weighted",
		"    credentials: [" + strings.Repeat("{name: a, key_file: k},", 65) + "]":           "credentials: 65 are more than 64",
		"    headers: {" + strings.Repeat("A", 5) + ": " + strings.Repeat("b ", 4<<10) + "}": "want at most 4096",
	} {
		if _, err := parseProvider(settings + "\n"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%.80s: err = %v, want %q and no secret", settings, err, want)
		}
	}
}
