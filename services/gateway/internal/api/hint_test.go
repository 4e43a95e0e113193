package api_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// hashedUser matches what a vendor of the anthropic dialect is told of an end user.
var hashedUser = regexp.MustCompile(`"metadata":\{"user_id":"[0-9a-f]{64}"\}`)

// Hints that clients send with each request shut no vendor out: they reach it in its own form, and the answer names the
// others.
func TestHintsAreNamed(t *testing.T) {
	b := setup(t)
	for name, c := range map[string]struct{ path, body, ignored string }{
		"the contract's seed": {chatPath, `"seed":7,` + messages, "seed"},
		"a chat": {
			completions, `"seed":7,"user":"ann","frequency_penalty":0.5,"logit_bias":{"1":-100},"verbosity":"low","store":true,"n":1,` + messages,
			"seed, frequency_penalty, logit_bias, verbosity, store",
		},
		"Codex": {
			responsesPath, `"client_metadata":{"a":"b"},"prompt_cache_key":"k","include":["reasoning.encrypted_content"],"text":{"verbosity":"low"},"store":false,"safety_identifier":"ann",` + hello,
			"text.verbosity, client_metadata, prompt_cache_key",
		},
	} {
		got := b.say(t, "POST", c.path, `{"model":"spare",`+c.body+`}`)
		if named := got.header.Get("X-Switchyard-Ignored"); got.status != 200 || named != c.ignored {
			t.Errorf("%s: %d %s, ignored %q, want %q", name, got.status, got.body, named, c.ignored)
		}
		sent := b.vendor.last()
		if strings.Contains(sent, "seed") || strings.Contains(sent, "ann") {
			t.Errorf("%s: the vendor got %s", name, sent)
		}
		if strings.Contains(c.body, "ann") && !hashedUser.MatchString(sent) {
			t.Errorf("%s: the vendor got %s, want the hash of the user", name, sent)
		}
	}
}

// The header is bounded, and holds names alone.
func TestNamedHintsAreBounded(t *testing.T) {
	const private = "ann's own text"
	b := setup(t)
	var fields strings.Builder
	for i := range 40 {
		fmt.Fprintf(&fields, `"field_%d":"%s",`, i, private)
	}
	got := b.say(t, "POST", completions, `{"model":"sandbox","prompt_cache_key":"`+private+`",`+fields.String()+messages+`}`)
	named := strings.Split(got.header.Get("X-Switchyard-Ignored"), ", ")
	if got.status != 200 || len(named) != 16 || named[0] != "prompt_cache_key" || strings.Contains(fmt.Sprint(got.header), private) {
		t.Errorf("%d, ignored %q, want 16 names", got.status, named)
	}
}
