package spelling_test

import (
	"testing"

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
