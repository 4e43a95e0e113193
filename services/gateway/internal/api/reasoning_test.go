package api_test

import (
	"strings"
	"testing"
)

// How much to think reaches a model that reasons, from each face. Another model ignores it and says so, unless it is
// required.
func TestReasoningOnEachFace(t *testing.T) {
	b := setupWith(t, strings.Replace(responsesPolicy, "models: [wise, ok,", "models: [wise, {name: thinker, upstream: gpt-5}, ok,", 1))
	for name, c := range map[string]struct{ path, body string }{
		"the contract": {chatPath, `"reasoning":{"effort":"high"},` + messages},
		"chat":         {completions, `"reasoning_effort":"high",` + messages},
		"responses":    {responsesPath, `"reasoning":{"effort":"high"},` + hello},
		"messages":     {messagesPath, `"output_config":{"effort":"high"},` + anthropicMsg},
	} {
		got := b.say(t, "POST", c.path, `{"model":"chats/thinker",`+c.body+`}`)
		if sent := b.vendor.last(); got.status != 200 || !strings.Contains(sent, `"reasoning_effort":"high"`) || got.header.Get("X-Switchyard-Ignored") != "" {
			t.Errorf("%s: %d, sent %s, ignored %q", name, got.status, sent, got.header.Get("X-Switchyard-Ignored"))
		}
		if name == "chat" { // Relayed as it came: the vendor decides.
			continue
		}
		got = b.say(t, "POST", c.path, `{"model":"chats/ok",`+c.body+`}`)
		if sent := b.vendor.last(); got.status != 200 || strings.Contains(sent, "reasoning_effort") || got.header.Get("X-Switchyard-Ignored") != "reasoning" {
			t.Errorf("%s: %d, sent %s, ignored %q, want reasoning", name, got.status, sent, got.header.Get("X-Switchyard-Ignored"))
		}
	}
	got := b.say(t, "POST", chatPath, `{"model":"chats/ok","allow_substitution":false,"reasoning":{"effort":"high","required":true},`+messages+`}`)
	if got.status != 400 || !strings.Contains(got.body, "chats/ok (reasoning)") {
		t.Errorf("required: %d %s", got.status, got.body)
	}
}
