package byok

import (
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// RefuseRawKey returns the refusal of a field that seems to hold a raw key. It repeats nothing of the field's value.
func RefuseRawKey(field string) *apierr.Error {
	return apierr.New(apierr.KindInvalid, ReasonRawKeyRefused,
		field+": seems to hold a raw key; send a secret_ref, or the key sealed to the gateway (GET /v1/byok/sealing-key)")
}

// LooksRaw reports whether a text seems to hold a raw key; see screen.LooksLikeKey.
func LooksRaw(text string) bool { return screen.LooksLikeKey(text) }
