package gemini

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"switchyard.dev/services/platform/jsoncheck"
)

// ownMark begins the signatures of the gateway, which hold the state of other vendors: "switchyard/1" in base64. They
// are base64, as the vendor's own, because its SDKs decode them; the vendor is never sent one.
const (
	ownMark = "c3dpdGNoeWFyZC8x"
	ownText = "switchyard/1"
)

// OwnSignature signs thoughts of other vendors, and calls that came without state.
const OwnSignature = ownMark

// Signature returns the thought signature that stands for a call's state: this vendor's own, or another vendor's state
// in one of the gateway's.
func Signature(extra json.RawMessage) string {
	if len(extra) == 0 {
		return OwnSignature
	}
	var s state
	if json.Unmarshal(extra, &s) == nil && s.Google.Signature != "" && isBase64(s.Google.Signature) {
		return s.Google.Signature
	}
	return base64.StdEncoding.EncodeToString(append([]byte(ownText), extra...))
}

func isBase64(text string) bool {
	_, err := base64.StdEncoding.DecodeString(text)
	return err == nil
}

// State is the reverse of Signature. own reports whether the gateway made the signature; such a one whose state can't
// be read has none.
func State(signature string) (extra json.RawMessage, own bool) {
	if !strings.HasPrefix(signature, ownMark) {
		return stateOf(signature), false
	}
	text, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || len(text) == len(ownText) {
		return nil, true
	}
	if text = text[len(ownText):]; text[0] != '{' || !jsoncheck.Valid(text) {
		return nil, true
	}
	return text, true
}
