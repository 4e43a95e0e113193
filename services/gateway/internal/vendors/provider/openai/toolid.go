package openai

import (
	"crypto/rand"
	"crypto/sha256"
	"math/big"
)

// maxToolID is the largest length of a tool call's ID at OpenAI and Azure. Source: their answer, "string too long.
// Expected a string with maximum length 40".
const maxToolID = 40

// shortLen is the length of a tool call's ID for Mistral's models.
const shortLen = 9

func isShort(id string) bool {
	if len(id) != shortLen {
		return false
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// shortID converts an ID to one that Mistral's models accept, always to the same one, so that a call and its result
// still belong together.
func shortID(id string) string {
	if id == "" || isShort(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	digits := new(big.Int).SetBytes(sum[:]).Text(62)
	return digits[len(digits)-shortLen:]
}

// newID returns an ID for a call without one.
func newID() string { return "call_" + rand.Text()[:24] }
