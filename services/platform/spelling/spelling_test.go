package spelling_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"switchyard.dev/services/platform/spelling"
)

func TestNearest(t *testing.T) {
	names := []string{"serve", "migrate", "config", "keys", "key-file"}
	for name, want := range map[string]string{
		"serve": "serve", "srve": "serve", "migrat": "migrate", "conifg": "config", "kyes": "keys",
		"key": "keys", "key_file": "key-file", "": "", "deploy": "", "help": "",
	} {
		if got := spelling.Nearest(name, names, "-", 2); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
	if got := spelling.Nearest("A_TOKEN", []string{"A_TOKENS", "A_TOKEN_FILE"}, "_", 1); got != "A_TOKENS" {
		t.Errorf("of two with one edit each, the first is nearest; got %q", got)
	}
}

func TestHint(t *testing.T) {
	known := []string{"model", "messages", "max_tokens", "from", "to"}
	all := "; known fields: model, messages, max_tokens, from, to"
	for name, want := range map[string]string{
		"modell": "; did you mean model?", "max": "; did you mean max_tokens?", "MODEL": all, "form": "; did you mean from?",
		"": all, "x": all, "colour": all, "\xff\x00": all, strings.Repeat("model", 1_600_000): all,
	} {
		if got := spelling.Hint(name, "fields", known); got != want {
			t.Errorf("Hint(%.20q) = %q, want %q", name, got, want)
		}
	}
	if got := spelling.Hint("x", "parameters", nil); got != "; known parameters: none" {
		t.Errorf("without a known name: %q", got)
	}
}

// A hint lists a bounded number of names.
func TestHintIsBounded(t *testing.T) {
	var known []string
	for i := range 10_000 {
		known = append(known, fmt.Sprintf("a_field_with_number_%d", i))
	}
	got := spelling.Hint("colour", "fields", known)
	if !strings.HasSuffix(got, "_22, a_field_with_number_23 and 9976 more") || len(got) > 1000 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
