package api_test

import "testing"

// count_tokens counts by the vocabulary of the model that the body names, where it is known, and by bytes else: "hello
// world" is 2 tokens, with 4 around the message and 3 before the answer, or 11 bytes. It is an estimate in any case.
func TestCountTokens(t *testing.T) {
	b := setup(t)
	const hello = `"messages":[{"role":"user","content":"hello world"}]`
	for body, want := range map[string]string{
		`{"model":"gpt-4o",` + hello + `}`:                        `{"input_tokens":9,"estimated":true}`,
		`{"model":"openai/gpt-4-turbo",` + hello + `}`:            `{"input_tokens":9,"estimated":true}`,
		`{"model":"claude-opus-5",` + hello + `}`:                 `{"input_tokens":3,"estimated":true}`,
		`{` + hello + `}`:                                         `{"input_tokens":3,"estimated":true}`,
		`{"model":"gpt-4o","system":"hello world",` + hello + `}`: `{"input_tokens":15,"estimated":true}`,
		`{"model":"gpt-4o","tools":[{"name":"hello","description":"world","input_schema":{"type":"object"}}],` + hello + `}`: `{"input_tokens":16,"estimated":true}`,
	} {
		got := b.say(t, "POST", "/v1/messages/count_tokens", body)
		if got.status != 200 || got.body != want || got.header.Get("X-Switchyard-Estimated") != "true" {
			t.Errorf("%s: %d %s, want %s and the header", body, got.status, got.body, want)
		}
	}
}
