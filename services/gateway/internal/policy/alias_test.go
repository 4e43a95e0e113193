package policy_test

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/policy"
)

const aliasText = `
default_model: one/a
byok: prefer
providers:
  - {name: one, aliases: [uno, eins], dialect: openai, base_url: "http://127.0.0.1:1", models: [a]}
  - {name: two, aliases: [one], dialect: openai, base_url: "http://127.0.0.1:1", models: [b]}
`

func TestAliases(t *testing.T) {
	p, err := policy.Parse(policy.Source{Text: []byte(aliasText)}, policy.Source{Text: []byte(`providers: [{name: one, dialect: openai, base_url: "http://127.0.0.1:2"}]`)})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"one": "one", "ONE": "one", "uno": "one", "Eins": "one", "two": "two", "tres": "", "": ""} {
		if got, ok := p.Canonical(name); got != want || ok != (want != "") {
			t.Errorf("%q is %q, %v, want %q", name, got, ok, want)
		}
	}
	if p.Byok() != keyring.ModePrefer {
		t.Errorf("mode %q", p.Byok())
	}
	for text, want := range map[string]string{
		strings.Replace(aliasText, "aliases: [one]", "aliases: [uno]", 1): "aliases",
		strings.Replace(aliasText, "aliases: [one]", "aliases: [A B]", 1): "aliases",
		strings.Replace(aliasText, "byok: prefer", "byok: always", 1):     "byok",
	} {
		if _, err := policy.Parse(policy.Source{Text: []byte(text)}, policy.Source{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one about %s", err, want)
		}
	}
}
