package input

import (
	"strings"
	"unicode"
)

// secrets are names of what no one may be asked for in a form: a page of the server's own is the way for it. Each is a
// sequence of words in the name or the title of a field.
var secrets = []string{
	" password ", " passwords ", " passwd ", " pwd ", " passphrase ", " passcode ", " secret ", " secrets ", " credential ", " credentials ",
	" api key ", " apikey ", " access key ", " private key ", " secret key ", " access token ", " refresh token ", " auth token ", " token ",
	" bearer ", " otp ", " one time code ", " cvv ", " cvc ", " card number ", " credit card ", " pin ", " pin code ", " seed phrase ",
	" recovery code ", " iban ",
}

// secret returns the path of the first field that asks for a secret; empty for none. It names no more than where.
func (f *form) secret() string {
	for i := range f.fields {
		if isSecret(f.fields[i].name) || isSecret(f.fields[i].kind.Title) {
			return "requestedSchema.properties"
		}
	}
	return ""
}

// isSecret reports whether a name is one of a secret. Words are as they are written in code: apiKey, api_key, API key.
func isSecret(name string) bool {
	words := words(name)
	for _, secret := range secrets {
		if strings.Contains(words, secret) {
			return true
		}
	}
	return false
}

// words returns the words of a name in lower case, each between spaces.
func words(name string) string {
	var out strings.Builder
	out.WriteByte(' ')
	last := ' '
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			r = ' '
		case unicode.IsUpper(r) && unicode.IsLower(last) && last != ' ':
			out.WriteByte(' ')
		}
		if r != ' ' || last != ' ' {
			out.WriteRune(unicode.ToLower(r))
		}
		last = r
	}
	if last != ' ' {
		out.WriteByte(' ')
	}
	return out.String()
}
