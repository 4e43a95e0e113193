package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

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

// input_tokens counts the whole conversation: the vendor that has the Responses API is asked, any other is estimated.
func TestInputTokens(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	var path string
	b.vendor.mu.Lock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"response.input_tokens","input_tokens":77}`)
	}
	b.vendor.mu.Unlock()
	const fields = `"input":[{"role":"user","content":"hello world"}],"instructions":"be brief","max_output_tokens":9,"stream":true,"metadata":{"a":"b"}`
	for _, c := range []struct{ model, want, estimated string }{
		{"native/wise", `{"object":"response.input_tokens","input_tokens":77}`, "false"},
		{"spare", `{"object":"response.input_tokens","input_tokens":5}`, "true"},
	} {
		got := b.say(t, "POST", "/v1/responses/input_tokens", `{"model":"`+c.model+`",`+fields+`}`)
		if got.status != 200 || got.body != c.want || got.header.Get("X-Switchyard-Estimated") != c.estimated {
			t.Errorf("%s: %d %s, estimated %q; want %s", c.model, got.status, got.body, got.header.Get("X-Switchyard-Estimated"), c.want)
		}
	}
	const want = `{"model":"wise","input":[{"role":"user","content":"hello world"}],"instructions":"be brief"}`
	if sent := b.vendor.last(); path != "/v1/responses/input_tokens" || sent != want {
		t.Errorf("%s was sent to %s, want %s to the count's path", sent, path, want)
	}
	got := b.say(t, "POST", "/v1/responses/input_tokens", `{"model":"spare","input":7}`)
	if got.status != 400 || !strings.Contains(got.body, "input") {
		t.Errorf("a number as input: %d %s, want 400 that names it", got.status, got.body)
	}
	if n := b.rows(t, "true"); n != 0 {
		t.Errorf("%d rows are billed, want none", n)
	}
}

// Where the model is one of Anthropic's dialect, its vendor counts. A vendor that fails to leaves the estimate, and nothing
// is billed.
func TestCountTokensIsForwarded(t *testing.T) {
	b := setup(t)
	var path string
	answer := `{"input_tokens":1234}`
	b.vendor.mu.Lock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		if answer == "" {
			http.Error(w, "{}", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}
	b.vendor.mu.Unlock()
	const body = `{"model":"spare","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}`
	for _, c := range []struct{ answer, want, estimated string }{
		{`{"input_tokens":1234}`, `{"input_tokens":1234,"estimated":false}`, "false"},
		{`{"input_tokens":"many"}`, `{"input_tokens":1,"estimated":true}`, "true"},
		{"", `{"input_tokens":1,"estimated":true}`, "true"},
	} {
		answer = c.answer
		got := b.say(t, "POST", "/v1/messages/count_tokens", body)
		if got.status != 200 || got.body != c.want || got.header.Get("X-Switchyard-Estimated") != c.estimated {
			t.Errorf("%q: %d %s, want %s", c.answer, got.status, got.body, c.want)
		}
		if sent := b.vendor.last(); path != "/v1/messages/count_tokens" || strings.Contains(sent, "max_tokens") || strings.Contains(sent, "stream") || !strings.Contains(sent, "cache_control") {
			t.Errorf("%s was sent to %s, want the count's path and body", sent, path)
		}
	}
	if n := b.rows(t, "true"); n != 0 {
		t.Errorf("%d rows are billed, want none", n)
	}
}
