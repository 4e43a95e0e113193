// Package principal compares the names of people and services that ask for decisions
// and make them. Requests name them as they like; the packages approval and trust
// must not take two spellings of one name for two principals.
package principal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"switchyard.dev/services/platform/apierr"
)

// ReasonNotIndependent is that of a decision by the principal that it is about.
const ReasonNotIndependent apierr.Reason = "reviewer_not_independent"

// Same reports whether two names are of one principal: equal but for case, for forms
// that look alike by Unicode's compatibility, for marks that no letter holds, and for
// spaces and what is invisible. Letters of different scripts are different letters.
func Same(a, b string) bool { return fold(a) == fold(b) }

// fold leaves out what is invisible first, so that it keeps no mark from its letter.
func fold(name string) string {
	name = without(name, invisible)
	name = norm.NFKC.String(cases.Fold().String(norm.NFKC.String(name)))
	return without(name, func(r rune) bool {
		return invisible(r) || unicode.IsSpace(r) || unicode.In(r, unicode.Mn, unicode.Z)
	})
}

func without(name string, out func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if out(r) {
			return -1
		}
		return r
	}, name)
}

// brailleBlank is a symbol that shows nothing, and no property says so.
const brailleBlank = '\u2800'

// invisible reports whether a character shows nothing, or changes how others are shown:
// controls, formats (those of direction too), fillers, variants and tags.
func invisible(r rune) bool {
	return r == brailleBlank ||
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Check refuses the name of a principal, in a field of a request, that shows nothing or
// holds what no reader sees: an audit must tell people who decided.
func Check(field, name string) error {
	switch {
	case fold(name) == "":
		return apierr.Invalid(field, "must not be blank")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unfit):
		return apierr.Invalid(field, "must not hold control, format or other invisible characters")
	}
	return nil
}

func unfit(r rune) bool {
	return invisible(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Co, unicode.Noncharacter_Code_Point)
}
