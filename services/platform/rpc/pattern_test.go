package rpc_test

import (
	"strconv"
	"testing"

	"switchyard.dev/services/platform/rpc"
)

// A pattern is told in words, also one that has none of its own, and never as a regular expression.
func TestPatternsAreToldInWords(t *testing.T) {
	for pattern, want := range map[string]string{
		`^[A-Za-z0-9_-]*$`:            "must hold only letters, digits, _ and -",
		`^[\x21\x23-\x5B\x5D-\x7E]+$`: `must hold only printable ASCII without spaces, " and \`,
		`^unknown$`:                   "does not have the form that this field takes",
	} {
		if got := rpc.PlainRule("value does not match regex pattern " + strconv.Quote(pattern)); got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
	if got := rpc.PlainRule("value length must be at most 5 runes"); got != "value length must be at most 5 runes" {
		t.Errorf("another rule: %q", got)
	}
}
