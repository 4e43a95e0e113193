package channel

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxDetail is how much of a receiver's text the log keeps, in runes.
	maxDetail = 200
	// minSecret is the length of the shortest secret that can be distinguished from ordinary text, in bytes.
	minSecret = 8
	redacted  = "[redacted]"
)

// Detail returns a receiver's text for the log: the words of its first maxAnswer bytes, shortened, without
// unprintable characters and without the secrets, which it may repeat. One pass replaces the secrets, the longest
// first. With a secret of fewer than minSecret bytes it returns nothing.
func Detail(text string, secrets ...string) string {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(secret string) bool { return secret == "" })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	cut := len(text) >= maxAnswer
	text = text[:min(len(text), maxAnswer)]
	if n := len(secrets); n > 0 {
		if len(secrets[n-1]) < minSecret {
			return ""
		}
		pairs := make([]string, 0, 2*n)
		for _, secret := range secrets {
			pairs = append(pairs, secret, redacted)
		}
		text = strings.NewReplacer(pairs...).Replace(text)
		if cut { // The text may end within a secret.
			text = text[:max(0, len(text)-2*len(secrets[0]))]
		}
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) > maxDetail {
		text = string([]rune(text)[:maxDetail])
	}
	return text
}
