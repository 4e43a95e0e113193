package inference

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	"switchyard.dev/services/platform/secret"
)

// NewPseudonym returns a function that returns the name by which vendors know an end user of an organization: a keyed
// hash of 64 hexadecimal digits. It is the same for every request, so that a vendor can tell end users apart, and tells
// nothing of who they are, nor that a user of two organizations is one. With an empty key, pseudonyms are the same in
// every installation, and who guesses a name can check the guess.
func NewPseudonym(key secret.Value) func(organization, user string) string {
	prefix := []byte("switchyard/end-user/v1:" + key.Reveal())
	return func(organization, user string) string {
		mac := hmac.New(sha256.New, prefix)
		mac.Write([]byte(organization + "\x00" + user))
		return hex.EncodeToString(mac.Sum(nil))
	}
}
