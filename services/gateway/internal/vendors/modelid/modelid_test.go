package modelid

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/shipped"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestOf(t *testing.T) {
	for name, want := range map[string]string{
		"claude-opus-4-5":                                "claude-opus-4.5",
		"claude-opus-4.5":                                "claude-opus-4.5",
		"claude-opus-4-5-20251101":                       "claude-opus-4.5",
		"claude-opus-4-5@20251101":                       "claude-opus-4.5",
		"anthropic.claude-opus-4-5-20251101-v1:0":        "claude-opus-4.5",
		"us.anthropic.claude-opus-4-5-20251101-v1:0":     "claude-opus-4.5",
		"eu.anthropic.claude-opus-4-5-20251101-v1:0":     "claude-opus-4.5",
		"apac.anthropic.claude-opus-4-5-20251101-v1:0":   "claude-opus-4.5",
		"jp.anthropic.claude-opus-4-5-20251101-v1:0":     "claude-opus-4.5",
		"au.anthropic.claude-opus-4-5-20251101-v1:0":     "claude-opus-4.5",
		"global.anthropic.claude-opus-4-5-20251101-v1:0": "claude-opus-4.5",
		"us-gov.anthropic.claude-opus-4-5-20251101-v1:0": "claude-opus-4.5",
		"openai.gpt-oss-120b-1:0":                        "gpt-oss-120b",
		"openai/gpt-oss-120b-maas":                       "gpt-oss-120b",
		"xai/grok-4.7":                                   "grok-4.7",
		"cohere.embed-v4:0":                              "embed-v4",
		"gpt-5.4-2026-03-05":                             "gpt-5.4",
		"deepseek.r1-v1:0":                               "deepseek-r1",
		"deepseek-ai/deepseek-r1-0528-maas":              "deepseek-r1-0528", // Other weights.

		// One prefix is stripped, and only of names on Bedrock.
		"us.us.anthropic.claude-opus-4-5-20251101-v1:0": "",
		"us.claude-opus-4-5":                            "",
		"us.gpt-5.5":                                    "",
		"us.":                                           "",
		"":                                              "",

		// Names that move, and names that hold no model.
		"gpt-5.6":              "",
		"gpt-5-chat-latest":    "",
		"chat-latest":          "",
		"deepseek-flash":       "",
		"mistral-large-latest": "",
		"gemini-flash-latest":  "",
		"arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc": "",
		"Claude-Opus-4-5": "", // Vendors' names are exact.
	} {
		if got := Of(name); got != want {
			t.Errorf("Of(%q) = %q, want %q", name, got, want)
		}
	}
}

// No name of the shipped table moves to other models.
func TestShippedNamesAreFixed(t *testing.T) {
	shippedTable, err := Parse(shipped.Identities)
	if err != nil {
		t.Fatal(err)
	}
	if len(shippedTable.byName) < 100 {
		t.Errorf("%d names, want all of the file", len(shippedTable.byName))
	}
	for name := range shippedTable.byName {
		if strings.Contains(name, "latest") || strings.Contains(name, "arn:") {
			t.Errorf("%s is no fixed name of a model", name)
		}
	}
	for name := range shippedTable.byBedrock {
		if profile, _ := SplitProfile(name); profile != "" {
			t.Errorf("%s has the prefix %s, which is no part of the name", name, profile)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"models: [{identity: a, names: [x]}, {identity: b, names: [x]}]":   `"x"`,
		"models: [{identity: a, names: [x]}, {identity: b, bedrock: [x]}]": `"x"`,
		"models: [{identity: a}, {identity: a}]":                           `"a"`,
		"models: [{names: [x]}]":                                           "models[0].identity",
		`models: [{identity: a, names: [""]}]`:                             "is empty",
		"models: [{identity: a, aliases: [x]}]":                            "aliases",
		"models: {":                                                        "identities:",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s in it", text, err, want)
		}
	}
	if empty, err := Parse(nil); err != nil || empty.Of("x") != "" {
		t.Errorf("an empty file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("models: [{identity: a, names: [x], bedrock: [v.y]}]", "us.v.y")
	f.Fuzz(func(t *testing.T, text, name string) {
		parsed, err := Parse([]byte(text))
		if err != nil {
			return
		}
		profile, rest := SplitProfile(name)
		if profile+rest != name {
			t.Fatalf("%q is split into %q and %q", name, profile, rest)
		}
		if identity := parsed.Of(name); identity != "" && parsed.Of(identity) != identity {
			t.Fatalf("the identity %q of %q is no name of itself", identity, name)
		}
	})
}

func TestParseGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Number("models", "models:\n", "  - {identity: m#, names: [n#]}\n", ""),
		growth.Number("names", "models:\n  - identity: m\n    names:\n", "      - n#\n", ""),
		growth.Number("bedrock's names", "models:\n  - identity: m\n    bedrock:\n", "      - v.n#\n", ""),
		growth.Nest("nested lists", "[", "", "]").In("models: ", ""),
	}
	growth.Linear(t, growth.Each(growth.UpTo(64<<10, inputs), func(text []byte) { _, _ = Parse(text) })...)
}

func TestOfGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each([]growth.Input{growth.Repeat("a long name", "us.", "n", "")}, func(text []byte) { _ = Of(string(text)) })...)
}
