package principal_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/principal"
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
