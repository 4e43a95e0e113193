package redact_test

import (
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/content/redact"
)

// Both forms hide what members hold that are named for a credential, and leave the rest as it was.
func TestCredentials(t *testing.T) {
	for in, want := range map[string]string{
		`{"mcp_servers":[{"authorization_token":"a secret"}]}`:                                 `{"mcp_servers":[{"authorization_token":"[api_key]"}]}`,
		`{"authorization":["a",{"b":["c"]}],"d":"e"}`:                                          `{"authorization":"[api_key]","d":"e"}`,
		`{"authorization_token":{"a":{"b":1}},"d":2}`:                                          `{"authorization_token":"[api_key]","d":2}`,
		`{"password":12345678,"pin":12345}`:                                                    `{"password":"[api_key]","pin":12345}`,
		`{"token":null,"needs_auth":true,"x":"y"}`:                                             `{"token":null,"needs_auth":true,"x":"y"}`,
		`{"authorizatio\u006e":"a"}`:                                                           `{"authorizatio\u006e":"[api_key]"}`,
		`{"headers":{"X-A":"b","X-C":["d"],"e":{"f":1}},"g":"h"}`:                              `{"headers":{"X-A":"[api_key]","X-C":"[api_key]","e":"[api_key]"},"g":"h"}`,
		`{"extraHeaders":["A: b",1]}`:                                                          `{"extraHeaders":["[api_key]","[api_key]"]}`,
		`{"server_url":"https://x.example/mcp?token=a"}`:                                       `{"server_url":"https://x.example/[api_key]"}`,
		`{"serverUrl":"https://u:p@x.example:8443"}`:                                           `{"serverUrl":"https://x.example:8443/[api_key]"}`,
		`{"server_url":"https://x.example/#a"}`:                                                `{"server_url":"https://x.example/[api_key]"}`,
		`{"server_url":["x.example?token=a","https://x.example/"]}`:                            `{"server_url":["[api_key]","https://x.example/"]}`,
		`{"mcp_servers":[{"url":"https://x.example/s/a"}],"url":"u?t=a"}`:                      `{"mcp_servers":[{"url":"https://x.example/[api_key]"}],"url":"u?t=a"}`,
		`{"mcpServers":[{"transport":{"url":"https://x.example/sse?k=a"}}]}`:                   `{"mcpServers":[{"transport":{"url":"https://x.example/[api_key]"}}]}`,
		`{"arguments":"{\"api_key\":\"a\",\"n\":1}"}`:                                          `{"arguments":"{\"api_key\":\"[api_key]\",\"n\":1}"}`,
		`{"arguments":"{\"n\": 1}","text":"[see below"}`:                                       `{"arguments":"{\"n\": 1}","text":"[see below"}`,
		`{"logprobs":{"content":[{"token":"a","top_logprobs":[{"token":"b"}],"secret":"c"}]}}`: `{"logprobs":{"content":[{"token":"a","top_logprobs":[{"token":"b"}],"secret":"[api_key]"}]}}`,
	} {
		if got := string(redact.Credentials([]byte(in))); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
		if got := string(new(redact.Redactor).JSON([]byte(in), redact.Kinds{})); got != want {
			t.Errorf("redacted: %s\n got %s\nwant %s", in, got, want)
		}
	}
}

// A schema's properties keep their descriptions, whatever their names; a value in the same place is hidden.
func TestCredentialsOfSchemas(t *testing.T) {
	const in = `{"parameters":{"type":"object","properties":{"password":{"type":"string","minLength":8},"headers":{"type":"object",` +
		`"properties":{"authorization":{"type":"string"}}},"server_url":{"type":"string"}},"$defs":{"token":{"anyOf":[{"type":"null"}]}},"required":["password"]}}`
	if got := string(redact.Credentials([]byte(in))); got != in {
		t.Errorf("%s, want %s", got, in)
	}
	const values = `{"properties":{"password":"a","token":[1],"headers":"b","server_url":"c","page":"d"}}`
	const want = `{"properties":{"password":"[api_key]","token":["[api_key]"],"headers":"[api_key]","server_url":"[api_key]","page":"d"}}`
	if got := string(redact.Credentials([]byte(values))); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Names are compared without case, punctuation and digits.
func TestCredentialNames(t *testing.T) {
	for name := range strings.FieldsSeq(`authorization Authorization proxy-authorization authorization_token authorizationToken token access_token accessToken
		x-access-token auth_token x-auth-token X-Amz-Security-Token refresh_token id_token apikey apiKey api_key API-KEY x-api-key x_goog_api_key
		client_secret clientSecret secret secrets domain_secrets password db_password passwd private_key secretAccessKey x-functions-key
		Ocp-Apim-Subscription-Key cookie Set-Cookie bearer authentication auth oauth2 credentials connection_string api_key_string password2 jwt`) {
		in := fmt.Sprintf(`{%q:"a"}`, name)
		if got, want := string(redact.Credentials([]byte(in))), fmt.Sprintf(`{%q:"[api_key]"}`, name); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := new(redact.Redactor).Named(name, "a", redact.Kinds{}); got != "[api_key]" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name := range strings.FieldsSeq(`author max_tokens prompt_tokens tokens key keyword secretary passwords_changed header url model tokenizer`) {
		in := fmt.Sprintf(`{%q:"a"}`, name)
		if got := string(redact.Credentials([]byte(in))); got != in {
			t.Errorf("%s, want %s", got, in)
		}
		if got := new(redact.Redactor).Named(name, "a", redact.Kinds{}); got != "a" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func BenchmarkCredentials(b *testing.B) {
	in := []byte(`[` + strings.Repeat(`{"type":"function","name":"read_file","description":"Reads a file of the working tree, from the first line or from an offset.",`+
		`"parameters":{"type":"object","properties":{"path":{"type":"string","description":"The file's path."},"offset":{"type":"integer"}},"required":["path"]}},`, 100) + `{}]`)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		_ = redact.Credentials(in)
	}
}
