package oauth

import (
	"net/http"
	"strings"
)

// Bounds of challenges: the values of WWW-Authenticate that are read, and the bytes of each. A value that is longer is
// left out.
const (
	maxChallenges = 8
	maxChallenge  = 8 << 10
	// maxScope bounds the scope that may be shown, in bytes.
	maxScope = 512
)

// Challenge is what a server demands of a token. Its parts are the server's.
type Challenge struct {
	// Code is the error, such as "insufficient_scope"; empty for none.
	Code string
	// Scope are the scopes that are demanded, separated by spaces: at most 512 bytes of the characters that scopes may
	// have; empty for none.
	Scope string
	// ResourceMetadata is the address of the server's metadata; empty for none.
	ResourceMetadata string
}

// InsufficientScope is the error of a token that lacks a scope.
const InsufficientScope = "insufficient_scope"

// ParseChallenge returns the first challenge of the scheme Bearer.
func ParseChallenge(h http.Header) Challenge {
	values := h.Values("WWW-Authenticate")
	for _, value := range values[:min(len(values), maxChallenges)] {
		if len(value) > maxChallenge {
			continue
		}
		if c, ok := parseChallenge(value); ok {
			return c
		}
	}
	return Challenge{}
}

// parseChallenge reads one value of the header, which may have several challenges (RFC 9110, section 11.6.1).
func parseChallenge(value string) (c Challenge, found bool) {
	for rest := value; rest != ""; {
		rest = strings.TrimLeft(rest, " \t,")
		word := token(rest)
		if word == "" {
			break
		}
		rest = strings.TrimLeft(rest[len(word):], " \t")
		if !strings.HasPrefix(rest, "=") {
			if found {
				break // The next challenge begins.
			}
			found = strings.EqualFold(word, "Bearer")
			continue
		}
		var text string
		if text, rest = parameter(strings.TrimLeft(rest, "= \t")); found {
			c.set(word, text)
		}
	}
	return c, found
}

func (c *Challenge) set(name, text string) {
	switch strings.ToLower(name) {
	case "error":
		if token(text) == text && len(text) <= 64 {
			c.Code = text
		}
	case "scope":
		c.Scope = visibleScope(text)
	case "resource_metadata":
		if len(text) <= maxURL {
			c.ResourceMetadata = text
		}
	}
}

// visibleScope returns a list of scopes without what is none.
func visibleScope(text string) string {
	if len(text) > maxScope || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return ""
	}
	return strings.TrimSpace(text)
}

// token returns the token (RFC 9110) that a text begins with.
func token(text string) string {
	for i := range len(text) {
		c := text[i]
		if c <= ' ' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return text[:i]
		}
	}
	return text
}

// parameter returns the value, a token or a quoted string, that a text begins with, and what follows it.
func parameter(text string) (value, rest string) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, ", \t")
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:]
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:]
		case '\\':
			if i++; i == len(text) {
				return "", ""
			}
		}
		b.WriteByte(text[i])
	}
	return "", "" // It does not end.
}
