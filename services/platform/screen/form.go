package screen

import "strings"

// form describes the keys of a vendor by their prefix.
type form struct {
	prefix string
	// rest reports whether the text after the prefix, up to maxTail bytes, is the rest of a key.
	rest func(rest string) bool
	// bare is true for prefixes that identify a key wherever they begin a word. Other prefixes are words or parts of
	// words, so the text after them must not be a word.
	bare bool
}

// forms are the key forms that vendors publish, by the prefix's first byte.
var forms = byFirst([]form{
	{prefix: "sk", rest: isTail},
	{prefix: "rk", rest: isTail},
	{prefix: "pk", rest: isTail},
	{prefix: "psk", rest: isTail},
	{prefix: "gsk", rest: isTail},
	{prefix: "csk", rest: isTail},
	{prefix: "pplx", rest: isTail},
	{prefix: "r8", rest: isTail},
	{prefix: "nvapi", rest: isTail},
	{prefix: "tgp", rest: isTail},
	{prefix: "whsec", rest: isTail},
	{prefix: "swy", rest: isTail},
	{prefix: "ghp", rest: isTail},
	{prefix: "gho", rest: isTail},
	{prefix: "ghu", rest: isTail},
	{prefix: "ghs", rest: isTail},
	{prefix: "github_pat", rest: isTail},
	{prefix: "glpat", rest: isTail},
	{prefix: "xoxb", rest: isTail},
	{prefix: "xoxp", rest: isTail},
	{prefix: "xoxa", rest: isTail},
	{prefix: "xapp", rest: isTail},
	{prefix: "xai", rest: isOddTail},
	{prefix: "hf", rest: isOddTail},
	{prefix: "fw", rest: isOddTail},
	{prefix: "co", rest: isOddTail},
	{prefix: "AIza", rest: lasts(20), bare: true},
	{prefix: "AQ.", rest: lasts(20), bare: true},
	{prefix: "ya29.", rest: lasts(20), bare: true},
	{prefix: "AKIA", rest: isAccessKey, bare: true},
	{prefix: "ASIA", rest: isAccessKey, bare: true},
	{prefix: "eyJ", rest: isToken2, bare: true},
	{prefix: "bearer", rest: isBearer, bare: true},
	{prefix: "Bearer", rest: isBearer, bare: true},
	{prefix: "BEARER", rest: isBearer, bare: true},
})

func byFirst(all []form) (by [256][]form) {
	for _, f := range all {
		by[f.prefix[0]] = append(by[f.prefix[0]], f)
	}
	return by
}

// HasKeyForm reports whether a text contains a key of a form that vendors publish, including Switchyard's own product
// keys and webhook secrets. Names made of words are not keys.
func HasKeyForm(text string) bool {
	if strings.Contains(text, "-----BEGIN ") {
		return true
	}
	for i := range len(text) {
		if i > 0 && isAlnum(text[i-1]) {
			continue
		}
		for j := range forms[text[i]] {
			f := &forms[text[i]][j]
			rest, ok := strings.CutPrefix(text[i:], f.prefix)
			if !ok {
				continue
			}
			rest = rest[:min(len(rest), maxTail)]
			if f.rest(rest) && (f.bare || i == 0 || !strings.ContainsRune("-_.", rune(text[i-1])) || isOddTail(rest)) {
				return true
			}
		}
	}
	return false
}

// isTail reports whether the rest is a dash or underscore and a long part with a digit or with a capital inside a word.
func isTail(rest string) bool {
	tail, ok := tailOf(rest)
	return ok && (strings.ContainsAny(tail, "0123456789") || isMixed(tail))
}

// isOddTail is isTail for prefixes that may begin an ordinary name: one part must not be a word.
func isOddTail(rest string) bool {
	tail, ok := tailOf(rest)
	if !ok {
		return false
	}
	for part := range strings.FieldsFuncSeq(tail, func(r rune) bool { return r == '-' || r == '_' }) {
		digits := 0
		for i := range len(part) {
			if isDigit(part[i]) {
				digits++
			}
		}
		if len(part) >= 12 && digits >= 2 && digits < len(part) {
			return true
		}
	}
	return false
}

// tailOf returns the text after the dash behind a prefix, as far as it consists of a key's characters.
func tailOf(rest string) (tail string, ok bool) {
	if rest == "" || rest[0] != '-' && rest[0] != '_' {
		return "", false
	}
	tail = rest[1 : 1+span(rest[1:], isURLSafe)]
	return tail, len(tail) >= minTail
}

// isMixed reports whether a capital follows a small letter, which doesn't occur in words.
func isMixed(text string) bool {
	for i := 1; i < len(text); i++ {
		if kinds[text[i]] == capital && kinds[text[i-1]] == small {
			return true
		}
	}
	return false
}

// lasts returns a function that reports whether the rest begins with n characters of a key.
func lasts(n int) func(string) bool {
	return func(rest string) bool { return span(rest, isURLSafe) >= n }
}

func isAccessKey(rest string) bool {
	return span(rest, func(c byte) bool { return kinds[c] > small }) == 16 && (len(rest) == 16 || !isAlnum(rest[16]))
}

// isToken2 reports whether the rest is that of the first two parts of a JSON web token.
func isToken2(rest string) bool {
	n := span(rest, isURLSafe)
	return n >= 10 && len(rest) > n && rest[n] == '.' && span(rest[n+1:], isURLSafe) >= 10 || n >= maxTail
}

func isBearer(rest string) bool {
	trimmed := strings.TrimLeft(rest, " \t\r\n")
	return len(trimmed) < len(rest) && span(trimmed, func(c byte) bool { return c > ' ' }) >= 8
}

func isURLSafe(c byte) bool { return isAlnum(c) || c == '-' || c == '_' }

// span returns how many leading bytes satisfy of.
func span(text string, of func(byte) bool) int {
	for i := range len(text) {
		if !of(text[i]) {
			return i
		}
	}
	return len(text)
}
