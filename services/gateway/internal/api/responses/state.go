package responses

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	vendor "switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/platform/jsoncheck"
)

// The opaque state of calls travels in the encrypted_content of a reasoning item, which clients send back unchanged.
// It has the form of base64url(JSON) behind sealMark. What a vendor wants kept from readers is sealed by that vendor; the
// rest is what the other faces show their callers too, so that it needs no key of the gateway's.
const sealMark = vendor.OwnState

// seal returns the state of a call as encrypted_content.
func seal(callID string, extra json.RawMessage) string {
	text, err := json.Marshal(map[string]json.RawMessage{callID: extra})
	if err != nil {
		return "" // The state was read from valid JSON; that can't fail.
	}
	return sealMark + base64.RawURLEncoding.EncodeToString(text)
}

// foreign returns the provider whose encrypted reasoning a content is; false for any other.
func foreign(content string) (name string, ok bool) {
	sealed, ok := vendor.OpenSealed(content)
	return sealed.Provider, ok
}

// open returns the state of calls by their ids; false for what the gateway did not make.
func open(content string) (state map[string]json.RawMessage, ok bool) {
	encoded, ok := strings.CutPrefix(content, sealMark)
	if !ok {
		return nil, false
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || jsoncheck.TooDeep(text) || json.Unmarshal(text, &state) != nil {
		return nil, false
	}
	return state, true
}
