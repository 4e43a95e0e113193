package dialect

import (
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// contentNames are the members of bodies that hold what a model reads or has to write, of every API. A key in them is
// the caller's own text. The extension is left to the contract's rules.
var contentNames = []string{
	"messages", "input", "prompt", "suffix", "instructions", "system", "contents", "content", "systemInstruction", "system_instruction",
	"documents", "query", "tools", "functions", "response_format", "text", "prediction", "stop", "stop_sequences", "generationConfig",
	"generation_config", "output_config", "output_format", "image", "mask", "mcp_servers", "requests", "body", "params",
	"generateContentRequest", Extension,
}

// referenceNames are members that name something, in which every text that looks random is refused; in others, which
// may be random, keys of a known form are.
var referenceNames = []string{"byok", "api_key", "provider"}

// screenKeys refuses a body with a raw key in a member that is no content, known to the face or not: bodies are kept for
// replays, and unknown members are passed on.
func (o *Object) screenKeys() error {
	for i := range o.members {
		m := &o.members[i]
		isKey := screen.HasKeyForm
		if slices.Contains(referenceNames, m.name) {
			isKey = screen.LooksLikeKey
		}
		if isKey(m.name) || !slices.Contains(contentNames, m.name) && holdsKey(gjson.ParseBytes(m.raw), isKey) {
			return refuseKey(m.name)
		}
	}
	return nil
}

// holdsKey reports whether isKey says so of a text or name in a value. Its depth is that of the body, which is bounded.
func holdsKey(value gjson.Result, isKey func(string) bool) (found bool) {
	switch {
	case value.Type == gjson.String:
		return isKey(value.Str)
	case value.IsObject(), value.IsArray():
		value.ForEach(func(name, item gjson.Result) bool {
			found = isKey(name.Str) || holdsKey(item, isKey)
			return !found
		})
	}
	return found
}

// refuseKey returns the refusal of a member with a raw key, by its name if that may be repeated.
func refuseKey(name string) error {
	if name == "byok" {
		return byok.RefuseRawKey(name)
	}
	if !screen.IsName(name) {
		name = "body"
	}
	return apierr.New(apierr.KindInvalid, byok.ReasonRawKeyRefused, name+": seems to hold a raw key; send a name or an identifier")
}
