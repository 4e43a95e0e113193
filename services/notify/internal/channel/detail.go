package channel

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxDetail is what is kept of a receiver's text in the log, in runes.
	maxDetail = 200
	// minSecret is the shortest secret that can be told from ordinary text, in bytes.
	minSecret = 8
	redacted  = "[redacted]"
)

// Detail is a receiver's text as the log keeps it: the words of its first
// maxAnswer bytes, cut, without what can't be printed and without the secrets,
// which it may repeat. One pass replaces them, the longest first. With a secret of
// fewer than minSecret bytes nothing is kept.
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
		if cut { // It may end within a secret.
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
