package provider

import (
	"crypto/sha256"
	"encoding/hex"
)

// CallID returns the ID of a tool call, or a hash of it in 37 characters if the ID is longer than a vendor accepts: IDs of
// other vendors are sent when a conversation changes its provider. Equal IDs stay equal, so that a call and its result
// still belong together.
func CallID(id string, longest int) string {
	if len(id) <= longest {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}
