package dialect

import (
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// contentNames lists the body members, of all APIs, whose content the model reads or whose format it must follow. Text
// in them that looks like a key is the caller's own and is not refused. The contract's rules check the extension.
var contentNames = []string{
	"messages", "input", "prompt", "suffix", "instructions", "system", "contents", "content", "systemInstruction", "system_instruction",
	"documents", "query", "tools", "functions", "response_format", "text", "prediction", "stop", "stop_sequences", "generationConfig",
	"generation_config", "output_config", "output_format", "image", "mask", "mcp_servers", "requests", "body", "params",
	"generateContentRequest", Extension,
}

// referenceNames lists members that hold a name: any random-looking text in them is refused. Other members may hold
// random text, so only keys of a known form are refused there.
var referenceNames = []string{"byok", "api_key", "provider"}

// screenKeys returns an error if a member outside contentNames holds a raw key. It also checks members that the face
// doesn't know, because bodies are stored for replays and unknown members are passed on.
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

// holdsKey reports whether isKey matches any text or member name in value. The recursion is bounded because the body's
// depth is.
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

// refuseKey returns the error for a member that holds a raw key. The error names the member if the name is safe to
// repeat.
func refuseKey(name string) error {
	if name == "byok" {
		return byok.RefuseRawKey(name)
	}
	if !screen.IsName(name) {
		name = "body"
	}
	return apierr.New(apierr.KindInvalid, byok.ReasonRawKeyRefused, name+": seems to hold a raw key; send a name or an identifier")
}
