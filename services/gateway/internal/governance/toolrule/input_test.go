package toolrule_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
)

func TestNormalOrigin(t *testing.T) {
	for text, want := range map[string]string{
		"https://Bank.example":      "https://bank.example",
		"https://bank.example:443":  "https://bank.example",
		"https://bank.example:":     "https://bank.example",
		"HTTP://bank.example:80":    "http://bank.example",
		"http://bank.example:443":   "http://bank.example:443",
		"https://[::1]:443":         "https://[::1]",
		"https://[::1]":             "https://[::1]",
		"https://bank.example/":     "",
		"https://bank.example?":     "",
		"https://bank.example#":     "",
		"https://u@bank.example":    "",
		"https://:443":              "",
		"bank.example":              "",
		"//bank.example":            "",
		"javascript://bank.example": "",
		"":                          "",
	} {
		if got, ok := toolrule.NormalOrigin(text); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t, want %q", text, got, ok, want)
		}
	}
}

// The first rule that matches counts, also where it says less than a later one.
func TestFirstRuleOfInputsCounts(t *testing.T) {
	rules := compile(t, toolrule.Settings{
		Sampling: []toolrule.SamplingRule{
			{Servers: []string{"A*"}, Sampling: toolrule.Sampling{By: toolrule.SamplingByGateway, MaxTokens: 7}},
			{Sampling: toolrule.Sampling{By: toolrule.SamplingRefused}},
			{Servers: []string{"b"}, Sampling: toolrule.Sampling{By: toolrule.SamplingByGateway}},
		},
		Elicitation: []toolrule.ElicitationRule{
			{Servers: []string{"a"}},
			{Origins: []string{"https://x.example:443"}},
		},
	})
	if got, want := rules.Sampling("Ab"), (toolrule.Sampling{By: toolrule.SamplingByGateway, MaxTokens: 7, MaxRequests: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := rules.Sampling("b"); got.By != toolrule.SamplingRefused {
		t.Errorf("%+v", got)
	}
	for server, want := range map[string]bool{"a": false, "A": false, "b": true} {
		if rules.MayOpen(server, "https://X.example") != want {
			t.Errorf("%s may open: %t", server, !want)
		}
	}
	if rules.MayOpen("b", "https://x.example/path") || rules.MayOpen("b", "http://x.example") {
		t.Error("another origin may be opened")
	}
	var none *toolrule.Rules
	if got := none.Sampling("a"); got.By != toolrule.SamplingByClient || none.MayOpen("a", "https://x.example") {
		t.Errorf("without rules: %+v", got)
	}
}
