package principal_test

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/platform/apierr"
)

func TestSame(t *testing.T) {
	for _, same := range [][2]string{
		{"ada", "ada"},
		{"ada", "ADA"},
		{"ada", " ada\t"},
		{"Ada Byron", "ada  byron"},
		{"ada", "a\u200bda"},
		{"ada", "\uff41\uff44\uff41"},
		{"ada", "ada\u00a0"},
		{"ada", "ada\u3000"},
		{"stra\u00dfe", "STRASSE"},
		{"caf\u00e9", "cafe\u0301"},
		{"ada@x.example", "Ada@X.example"},
		{"ada", "ad\u00ada"},
		{"ada", "ada\u3164"}, // Hangul filler: a letter without a visible shape.
		{"ada", "a\uffa0da"},
		{"ada", "ad\u2800a"},              // Braille blank.
		{"ada", "ada\U000e0020"},          // A tag.
		{"ada", "\u202eada\u202c"},        // right-to-left override
		{"caf\u00e9", "cafe\u200b\u0301"}, // The zero-width space separates the mark from its letter.
		{"caf\u00e9", "cafe\u034f\u0301"},
		{"CAF\u00c9", "cafe\ufe0f\u0301"},
	} {
		if !principal.Same(same[0], same[1]) || !principal.Same(same[1], same[0]) {
			t.Errorf("%q and %q are two principals", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{"ada", "eve"}, {"ada", "ada2"}, {"ada.byron", "ada_byron"}, {"ada", ""}} {
		if principal.Same(other[0], other[1]) {
			t.Errorf("%q and %q are one principal", other[0], other[1])
		}
	}
}

// A valid name shows all its characters, in their order.
func TestCheck(t *testing.T) {
	for _, good := range []string{
		"ada", "Ada Byron", "ada@x.example", "svc:deploy/1", "caf\u00e9", "cafe\u0301", "\u0410\u0434\u0430", "\u963f\u8fbe", "\u0905\u0926\u093e", "a\u00a0b",
	} {
		if err := principal.Check("decided_by", good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for name, bad := range map[string]string{
		"empty": "", "blank": " \t", "a blank of another kind": "\u3000", "a letter without a shape": "\u3164", "a mark alone": "\u0301",
		"a tab": "a\tb", "a line": "a\nb", "a zero byte": "a\x00b", "a line of Unicode": "a\u2028b", "a paragraph": "a\u2029b",
		"zero width": "a\u200bb", "a soft hyphen": "a\u00adb", "a byte order mark": "\ufeffa", "from right to left": "\u202eada", "an isolate": "\u2066ada\u2069",
		"a tag": "a\U000e0061", "a filler": "a\u115fb", "Braille without dots": "a\u2800", "a variant": "a\ufe0f",
		"private use": "a\ue000", "no character": "a\uffff", "no text": "a\xff",
	} {
		e := apierr.From(principal.Check("decided_by", bad))
		if e == nil || e.Kind != apierr.KindInvalid || !strings.Contains(e.Text, "decided_by") {
			t.Errorf("%s: %v", name, e)
		}
	}
}
