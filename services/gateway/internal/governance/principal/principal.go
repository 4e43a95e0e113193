// Package principal compares the names of people and services that request decisions and make them. Requests may spell
// names in any way; packages approval and trust must not take two spellings of one name for two principals.
package principal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"switchyard.dev/services/platform/apierr"
)

// ReasonNotIndependent is the reason of a refused decision by the principal that it is about.
const ReasonNotIndependent apierr.Reason = "reviewer_not_independent"

// Same reports whether two names belong to the same principal. They do if they are equal except for case, compatibility
// forms of Unicode, combining marks that are not composed with a letter, spaces and invisible characters. Letters of
// different scripts differ.
func Same(a, b string) bool { return fold(a) == fold(b) }

// fold removes invisible characters first, so that none separates a mark from its letter.
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

// brailleBlank is a symbol without a visible shape, which no Unicode property marks as such.
const brailleBlank = '\u2800'

// invisible reports whether a character has no visible shape, or changes how others are shown: controls, formats (also
// of direction), fillers, variation selectors and tags.
func invisible(r rune) bool {
	return r == brailleBlank ||
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Check returns an error that names the field if a principal's name is blank or holds invisible characters: an audit
// must show people who decided.
func Check(field, name string) error {
	switch {
	case fold(name) == "":
		return apierr.Invalid(field, "must not be blank")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, Invisible):
		return apierr.Invalid(field, "must not hold control, format or other invisible characters")
	}
	return nil
}

// Invisible reports whether people don't see a character as itself: it has no visible shape, changes how others are shown,
// or has a meaning only in private.
func Invisible(r rune) bool {
	return invisible(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Co, unicode.Noncharacter_Code_Point)
}
