package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// SealedReasoning is encrypted reasoning of one vendor with the place where it was made: another host, or another
// account at the same one, can't read it and would refuse the conversation. It travels in the reasoning's
// encrypted_content behind OwnState.
type SealedReasoning struct {
	// Provider is the host's name in the policy, Account the fingerprint of the credential.
	Provider string `json:"provider"`
	Account  string `json:"account,omitempty"`
	// Content is what the vendor wrote.
	Content string `json:"content"`
}

// seal returns the encrypted_content that callers get.
func (s SealedReasoning) seal() string {
	text, _ := json.Marshal(map[string]SealedReasoning{"reasoning": s}) // Texts always marshal.
	return OwnState + base64.RawURLEncoding.EncodeToString(text)
}

// OpenReasoning returns what seal has sealed; false for any other content.
func OpenReasoning(content string) (s SealedReasoning, ok bool) {
	encoded, ok := strings.CutPrefix(content, OwnState)
	if !ok {
		return s, false
	}
	var text struct {
		Reasoning *SealedReasoning `json:"reasoning"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(raw, &text) != nil || text.Reasoning == nil {
		return s, false
	}
	return *text.Reasoning, true
}

// reasoningPlace is where reasoning is made: the provider and the account.
type reasoningPlace struct{ provider, account string }

func (p *Provider) placeOf(credential provider.Credential) reasoningPlace {
	return reasoningPlace{p.config.Name, credential.Fingerprint}
}

// unsealed returns the items of an input as this place gets them: with its own reasoning as the vendor wrote it, without
// that of others, and without reasoning of which only the id is left, as the vendor has stored nothing.
func (at reasoningPlace) unsealed(item gjson.Result) (raw string, keep bool) {
	content := item.Get("encrypted_content").Str
	if !strings.HasPrefix(content, OwnState) {
		return item.Raw, content != "" || item.Get("type").Str != "reasoning" || item.Get("content.0").Exists()
	}
	sealed, ok := OpenReasoning(content)
	if !ok || sealed.Provider != at.provider || sealed.Account != at.account {
		return "", false
	}
	raw, err := sjson.Set(item.Raw, "encrypted_content", sealed.Content)
	return raw, err == nil
}

// encrypted is in each document that holds encrypted reasoning.
var encrypted = []byte(`"encrypted_content"`)

// sealAll returns a document with the encrypted reasoning of its items sealed. path leads to the items: to one, or to a
// list of them.
func (at reasoningPlace) sealAll(document []byte, path string) []byte {
	if !bytes.Contains(document, encrypted) {
		return document
	}
	found := gjson.GetBytes(document, path)
	if found.Index == 0 {
		return document
	}
	var replaced string
	if found.IsArray() {
		var items []string
		each(found, func(item gjson.Result) { items = append(items, at.sealItem(item)) })
		replaced = "[" + strings.Join(items, ",") + "]"
	} else {
		replaced = at.sealItem(found)
	}
	out := make([]byte, 0, len(document)+len(replaced)-len(found.Raw))
	out = append(append(out, document[:found.Index]...), replaced...)
	return append(out, document[found.Index+len(found.Raw):]...)
}

func (at reasoningPlace) sealItem(item gjson.Result) string {
	content := item.Get("encrypted_content").Str
	if item.Get("type").Str != "reasoning" || content == "" {
		return item.Raw
	}
	sealed, err := sjson.Set(item.Raw, "encrypted_content", SealedReasoning{at.provider, at.account, content}.seal())
	if err != nil {
		return item.Raw
	}
	return sealed
}
