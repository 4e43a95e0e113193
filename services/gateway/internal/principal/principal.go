// Package principal compares the names of people and services that ask for decisions
// and make them. Requests name them as they like; the packages approval and trust
// must not take two spellings of one name for two principals.
package principal

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"switchyard.dev/services/platform/apierr"
)

// ReasonNotIndependent is that of a decision by the principal that it is about.
const ReasonNotIndependent apierr.Reason = "reviewer_not_independent"

// Same reports whether two names are of one principal: equal but for case, for forms
// that look alike by Unicode's compatibility, and for spaces and what is invisible.
func Same(a, b string) bool { return fold(a) == fold(b) }

func fold(name string) string {
	name = norm.NFKC.String(cases.Fold().String(norm.NFKC.String(name)))
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.In(r, unicode.Cf, unicode.Cc, unicode.Mn, unicode.Z) {
			return -1
		}
		return r
	}, name)
}
