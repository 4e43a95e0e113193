package redact

import "strings"

// shape is the prefix of a vendor's keys, and the least number of characters behind it.
type shape struct {
	prefix string
	rest   int
}

// shapes holds the key prefixes that vendors publish, and this gateway's own, by first letter.
var shapes = byLetter(
	shape{"sk-", 16}, shape{"sk_", 16}, shape{"rk_", 16}, shape{"pk_", 16}, shape{"sess-", 24}, shape{"key-", 24}, // OpenAI, Anthropic, Stripe, Mailgun
	shape{"AIza", 30}, shape{"AQ.", 20}, shape{"ya29.", 20}, shape{"GOCSPX-", 20}, // Google
	shape{"gsk_", 20}, shape{"xai-", 20}, shape{"pplx-", 20}, shape{"r8_", 20}, shape{"hf_", 20}, shape{"nvapi-", 20}, shape{"fw_", 20}, shape{"tgp_", 20}, shape{"csk-", 20},
	shape{"AKIA", 16}, shape{"ASIA", 16}, // AWS
	shape{"ghp_", 30}, shape{"gho_", 30}, shape{"ghu_", 30}, shape{"ghs_", 30}, shape{"ghr_", 30}, shape{"github_pat_", 20}, shape{"glpat-", 16},
	shape{"xoxb-", 10}, shape{"xoxp-", 10}, shape{"xoxa-", 10}, shape{"xoxr-", 10}, shape{"xoxs-", 10}, shape{"xapp-", 10}, // Slack
	shape{"SG.", 20}, shape{"npm_", 30}, shape{"pypi-", 20}, shape{"dop_v1_", 40}, shape{"shpat_", 24}, shape{"whsec_", 20}, shape{"dckr_pat_", 20},
	shape{"swy_", 30}, shape{"lin_api_", 20}, shape{"sq0", 20}, shape{"PMAK-", 24}, shape{"AGE-SECRET-KEY-1", 40},
	shape{"eyJ", 24}, // A JSON Web Token
)

func byLetter(all ...shape) (of [128][]shape) {
	for _, s := range all {
		of[s.prefix[0]] = append(of[s.prefix[0]], s)
	}
	return of
}

const (
	pemBegin, pemEnd = "-----BEGIN ", "-----END "
	// minBearer is the shortest credential of an Authorization header.
	minBearer = 12
)

// keys finds API keys of known shapes, credentials behind "Bearer" and "Basic", and private keys in PEM.
func keys(text string, found []span) []span {
	for i := 0; i < len(text); i++ {
		if isAlnum(at(text, i-1)) || text[i] >= 128 {
			continue
		}
		to := key(text, i)
		switch c := text[i] | 0x20; {
		case to > 0:
		case c == 'b':
			to = authorization(text, i)
		case text[i] == '-' && at(text, i-1) != '-':
			to = pem(text, i)
		}
		if to > 0 {
			found = append(found, span{i, to, KindAPIKey})
			i = to - 1
		}
	}
	return found
}

// key returns the end of the key that begins at i, or 0 if there is none.
func key(text string, i int) int {
	for _, s := range shapes[text[i]] {
		if !strings.HasPrefix(text[i:], s.prefix) {
			continue
		}
		from := i + len(s.prefix)
		if head := runEnd(text[:min(len(text), from+randomWithin)], from, keyMarks); head-from >= s.rest && isRandom(text[from:head]) {
			return runEnd(text, head, keyMarks)
		}
	}
	return 0
}

// runEnd returns the end of the run of letters, digits and marks that begins at i. A full stop belongs to the run only
// if a letter or digit follows it.
func runEnd(text string, i int, marks string) int {
	for i < len(text) {
		c := text[i]
		if !isAlnum(c) && (strings.IndexByte(marks, c) < 0 || c == '.' && !isAlnum(at(text, i+1))) {
			break
		}
		i++
	}
	return i
}

const (
	// keyMarks may be within keys, bearerMarks within credentials (RFC 6750, 2.1).
	keyMarks, bearerMarks = "-_.", "-._~+/="
	// randomWithin is the number of characters within which a key must look random: a text that is no key is scanned
	// again from each of its parts.
	randomWithin = 128
)

// isRandom reports whether text looks like a key and not like a name made of words: it has a digit, or a capital behind
// a small letter.
func isRandom(text string) bool {
	for i := range len(text) {
		if isDigit(text[i]) || i > 0 && text[i] >= 'A' && text[i] <= 'Z' && text[i-1] >= 'a' {
			return true
		}
	}
	return false
}

// authorization returns the end of a credential behind its scheme (RFC 9110, 11.4), or 0.
func authorization(text string, i int) int {
	const bearer, basic = "bearer", "basic"
	to := i
	switch {
	case len(text) >= i+len(bearer) && strings.EqualFold(text[i:i+len(bearer)], bearer):
		to += len(bearer)
	case len(text) >= i+len(basic) && strings.EqualFold(text[i:i+len(basic)], basic):
		to += len(basic)
	default:
		return 0
	}
	from := to
	for to < len(text) && to-from < 4 && (text[to] == ' ' || text[to] == ':') {
		to++
	}
	if to == from {
		return 0
	}
	head := runEnd(text[:min(len(text), to+randomWithin)], to, bearerMarks)
	if head-to < minBearer || !isRandom(text[to:head]) {
		return 0
	}
	return runEnd(text, head, bearerMarks)
}

// pem returns the end of a private key (RFC 7468), or 0. A key without an end line extends to the end of the text.
func pem(text string, i int) int {
	head, _, _ := strings.Cut(text[i:min(len(text), i+80)], "\n")
	if !strings.HasPrefix(head, pemBegin) || !strings.Contains(head, "PRIVATE KEY") {
		return 0
	}
	end := strings.Index(text[i:], pemEnd)
	if end < 0 {
		return len(text)
	}
	end += i + len(pemEnd)
	if dashes := strings.Index(text[end:min(len(text), end+80)], "-----"); dashes >= 0 {
		return end + dashes + len("-----")
	}
	return end
}
