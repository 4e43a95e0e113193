package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/klauspost/compress/s2"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/jsoncheck"
)

// Types of the items whose content only the vendor can read.
const (
	typeReasoning  = "reasoning"
	typeCompaction = "compaction"
)

// Sealed is what one vendor has encrypted, reasoning or a compaction, with the place where it was made: another host, or
// another account at the same one, can't read it and would refuse the conversation. It travels in the item's
// encrypted_content behind OwnState.
type Sealed struct {
	// Provider is the host's name in the policy, Account the fingerprint of the credential.
	Provider string `json:"provider"`
	Account  string `json:"account,omitempty"`
	// Content is what the vendor wrote.
	Content string `json:"content"`

	// behind are the items that a compaction stands for, compressed, so that the conversation can go on elsewhere.
	behind []byte
}

// MaxBehind bounds the items that a compaction carries, in bytes of JSON. One that stands for more can be read by its
// vendor alone.
const MaxBehind = 8 << 20

// Behind returns the items that a compaction stands for: a JSON array of at most MaxBehind bytes. It is false where there
// are none.
func (s Sealed) Behind() (items json.RawMessage, ok bool) {
	size, err := s2.DecodedLen(s.behind)
	if err != nil || size > MaxBehind {
		return nil, false
	}
	items, err = s2.Decode(nil, s.behind)
	if err != nil || !jsoncheck.Valid(items) || !gjson.ParseBytes(items).IsArray() {
		return nil, false
	}
	return items, true
}

// seal returns the encrypted_content that callers get.
func (s Sealed) seal() string {
	text, _ := json.Marshal(map[string]Sealed{"sealed": s}) // Texts always marshal.
	content := OwnState + base64.RawURLEncoding.EncodeToString(text)
	if s.behind != nil {
		content += "." + base64.RawURLEncoding.EncodeToString(s.behind)
	}
	return content
}

// OpenSealed returns what seal has sealed; false for any other content.
func OpenSealed(content string) (s Sealed, ok bool) {
	encoded, ok := strings.CutPrefix(content, OwnState)
	if !ok {
		return s, false
	}
	encoded, rest, _ := strings.Cut(encoded, ".")
	var text struct {
		Sealed *Sealed `json:"sealed"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(raw, &text) != nil || text.Sealed == nil {
		return s, false
	}
	s = *text.Sealed
	if s.behind, err = base64.RawURLEncoding.DecodeString(rest); err != nil {
		return Sealed{}, false
	}
	return s, true
}

// origin is where a vendor's content is made and can be read: the provider and the account.
type origin struct{ provider, account string }

func (p *Provider) placeOf(credential provider.Credential) origin {
	return origin{p.settings.Name, credential.Fingerprint}
}

func (at origin) made(s Sealed) bool { return s.Provider == at.provider && s.Account == at.account }

// encrypted is in each document that holds encrypted content.
var encrypted = []byte(`"encrypted_content"`)

// sealAll returns a document with the encrypted content of its items sealed. path leads to the items: to one, or to a
// list of them. behind are the items that a compaction among them stands for, compressed.
func (at origin) sealAll(document []byte, path string, behind []byte) []byte {
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
		each(found, func(item gjson.Result) { items = append(items, at.sealItem(item, behind)) })
		replaced = "[" + strings.Join(items, ",") + "]"
	} else {
		replaced = at.sealItem(found, behind)
	}
	out := make([]byte, 0, len(document)+len(replaced)-len(found.Raw))
	out = append(append(out, document[:found.Index]...), replaced...)
	return append(out, document[found.Index+len(found.Raw):]...)
}

func (at origin) sealItem(item gjson.Result, behind []byte) string {
	s := Sealed{Provider: at.provider, Account: at.account, Content: item.Get("encrypted_content").Str}
	switch item.Get("type").Str {
	case typeReasoning:
	case typeCompaction:
		s.behind = behind
	default:
		return item.Raw
	}
	if s.Content == "" {
		return item.Raw
	}
	sealed, err := sjson.Set(item.Raw, "encrypted_content", s.seal())
	if err != nil {
		return item.Raw
	}
	return sealed
}
