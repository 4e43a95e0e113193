package byok

import (
	"math"
	"regexp"
	"strings"

	"switchyard.dev/services/platform/apierr"
)

// RefuseRawKey is the answer to a field with what seems to be a key. It repeats
// nothing of it.
func RefuseRawKey(field string) *apierr.Error {
	return apierr.New(apierr.KindInvalid, ReasonRawKeyRefused,
		field+": seems to hold a raw key; send a secret_ref, or the key sealed to the gateway (GET /v1/byok/sealing-key)")
}

// forms of keys that vendors publish.
var forms = regexp.MustCompile(`(?i:\bbearer\s+\S{8})|-----BEGIN |(?:^|[^A-Za-z0-9])(?:` +
	`(?:sk|rk|pk|key|gsk|xai|pplx|r8|hf|nvapi|fw|tgp|csk|co|psk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9_-]{16,}|` +
	`AIza[A-Za-z0-9_-]{20,}|AQ\.[A-Za-z0-9_-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|ya29\.[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})`)

// runs are what a key without a known form could be.
var runs = regexp.MustCompile(`[A-Za-z0-9+/]{28,}={0,2}`)

const (
	// minDigits and minEntropy (bits a character) tell a key from words.
	minDigits  = 3
	minEntropy = 3.2
)

// LooksRaw tells whether a text seems to hold a raw key: of a known form, or a
// long run of letters and digits without an order. Names, UUIDs and digests in
// parts pass.
func LooksRaw(text string) bool { return looksKnown(text) || looksRandom(text) }

func looksKnown(text string) bool {
	for _, match := range forms.FindAllString(text, -1) {
		// A name of words and dashes may begin like a key: "key-for-the-billing-team".
		if strings.ContainsAny(match, " .") || strings.Contains(match, "AIza") || strings.ContainsAny(match, "0123456789") || mixed(match) {
			return true
		}
	}
	return false
}

// mixed tells that a text has a capital after a small letter: no word has.
func mixed(text string) bool {
	for i := 1; i < len(text); i++ {
		if text[i] >= 'A' && text[i] <= 'Z' && text[i-1] >= 'a' && text[i-1] <= 'z' {
			return true
		}
	}
	return false
}

func looksRandom(text string) bool {
	for _, run := range runs.FindAllString(text, -1) {
		digits := 0
		for i := range len(run) {
			if run[i] >= '0' && run[i] <= '9' {
				digits++
			}
		}
		if digits >= minDigits && digits < len(run) && entropy(run) >= minEntropy {
			return true
		}
	}
	return false
}

// entropy is Shannon's, in bits a character.
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
