package screen

import (
	"math"
	"strings"
)

const (
	// minKey is the length of the shortest text that can contain a key.
	minKey = 15
	// minTail is the shortest part after a vendor's prefix, maxTail how much of it is examined.
	minTail = 16
	maxTail = 96
	// minRun is the shortest run that can be a key without a prefix. It is minIDRun in identifiers, which are long
	// themselves.
	minRun   = 28
	minIDRun = 32
	// minToken is the shortest run with dashes that can be a key. minPart is the minimum length of its longest part
	// between two dashes: a UUID's parts have at most 12 characters.
	minToken = 40
	minPart  = 16
	// minDigits and minEntropy (bits per character) distinguish a key from words.
	minDigits  = 3
	minEntropy = 3.2
)

// LooksLikeKey reports whether a text seems to contain a key: one of a form that a vendor publishes, or a long run of
// letters and digits without an order. Names of models and deployments, UUIDs, and digests after a name are not keys.
// Its time is linear in the size of the text.
func LooksLikeKey(text string) bool {
	return len(text) >= minKey && (HasKeyForm(text) || hasRandomRun(text, minRun, false))
}

// IDLooksLikeKey reports whether an identifier seems to contain a key. It is LooksLikeKey for texts that callers may
// choose at random: digests and other hexadecimal numbers of any length are not keys.
func IDLooksLikeKey(text string) bool {
	return len(text) >= minKey && (HasKeyForm(text) || hasRandomRun(text, minIDRun, true))
}

// hasRandomRun reports whether a text contains a run of letters and digits that occurs in no name.
func hasRandomRun(text string, least int, hex bool) bool {
	for start, i := 0, 0; i <= len(text); i++ {
		if i < len(text) && (isAlnum(text[i]) || text[i] == '+') {
			continue
		}
		run := text[start:i]
		if len(run) >= least && isRandom(run) && (!isHex(run) || !hex && !isDigest(text[:start], run)) {
			return true
		}
		start = i + 1
	}
	if len(text) < minToken {
		return false
	}
	for start, i := 0, 0; i <= len(text); i++ {
		if i < len(text) && (isAlnum(text[i]) || strings.IndexByte("+/_-", text[i]) >= 0) {
			continue
		}
		if run := text[start:i]; len(run) >= minToken && isToken(run) {
			return true
		}
		start = i + 1
	}
	return false
}

// isRandom reports whether a run of letters and digits is random rather than a word with a number.
func isRandom(run string) bool {
	digits := 0
	for i := range len(run) {
		if isDigit(run[i]) {
			digits++
		}
	}
	return digits >= minDigits && digits < len(run) && entropy(run) >= minEntropy
}

// isToken reports whether a run with dashes or slashes is base64: in words, the kind of character changes rarely.
func isToken(run string) bool {
	var seen [4]bool
	changes, part, longest, before := 0, 0, 0, other
	for i := range len(run) {
		kind := kinds[run[i]]
		seen[kind] = true
		if part++; kind == other {
			part = 0
		}
		longest = max(longest, part)
		if kind != other && before != other && kind != before {
			changes++
		}
		before = kind
	}
	return seen[small] && seen[capital] && seen[digit] && 3*changes >= len(run) && longest >= minPart
}

// Kinds of characters.
const (
	other byte = iota
	small
	capital
	digit
)

var kinds = func() (kinds [256]byte) {
	for c := range kinds {
		switch {
		case c >= 'a' && c <= 'z':
			kinds[c] = small
		case c >= 'A' && c <= 'Z':
			kinds[c] = capital
		case c >= '0' && c <= '9':
			kinds[c] = digit
		}
	}
	return kinds
}()

// isDigest reports whether a hexadecimal number is the version of the thing named before it:
// "meta/llama-2-70b:02e509c7…", "llama3@sha256:6a0746a1…".
func isDigest(before, run string) bool {
	return strings.HasSuffix(before, ":") && (strings.HasSuffix(before, "sha256:") || strings.Contains(before, "/")) &&
		(len(run) == 40 || len(run) == 64) && run == strings.ToLower(run)
}

func isHex(run string) bool {
	for i := range len(run) {
		if c := run[i] | ' '; !isDigit(run[i]) && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// entropy returns the Shannon entropy in bits per character.
func entropy(text string) float64 {
	var counts [256]int
	for i := range len(text) {
		counts[text[i]]++
	}
	var bits float64
	for _, n := range counts {
		if n > 0 {
			share := float64(n) / float64(len(text))
			bits -= share * math.Log2(share)
		}
	}
	return bits
}

func isDigit(c byte) bool { return kinds[c] == digit }

func isAlnum(c byte) bool { return kinds[c] != other }
