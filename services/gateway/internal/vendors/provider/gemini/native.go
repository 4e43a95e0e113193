package gemini

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// DialectName is the dialect's name in the policy, and that of bodies in its form.
const DialectName = "gemini"

// native reports whether the caller wrote the body in this dialect.
func native(chat *provider.Chat) bool {
	return chat.Native != nil && chat.Native.Dialect == DialectName
}

// body returns the body to send: the caller's own, or one encoded from the parsed fields.
func body(chat *provider.Chat) (any, error) {
	if native(chat) {
		return relay(chat)
	}
	return encode(chat)
}

// relay returns the caller's body without the model, which the URL names, without the thoughts and signatures that other
// vendors' answers had, and with thinking as the model accepts it. The rest stays byte for byte.
func relay(chat *provider.Chat) (json.RawMessage, error) {
	text := chat.Native.Body
	if !jsoncheck.Valid(text) || !wire.ParseView(text).IsObject() {
		return nil, invalid("the request is not a JSON object", nil)
	}
	foreign := bytes.Contains(text, []byte(ownMark))
	edit, root := wire.NewEditor(wire.ParseView(text))
	edit.Members(root, func(name string, value gjson.Result) bool {
		switch {
		case name == "contents" && foreign:
			edit.Replace(value, withoutForeign(chat.Model, value))
		case name == "generationConfig" || name == "generation_config":
			edit.Members(value, func(name string, value gjson.Result) bool {
				if (name == "thinkingConfig" || name == "thinking_config") && value.IsObject() {
					edit.Replace(value, acceptedThinking(chat.Model, value))
				}
				return false
			})
		}
		return strings.EqualFold(name, "model")
	})
	return json.RawMessage(edit.End()), nil
}

// withoutForeign returns the turns without the gateway's own signatures. A turn of foreign thoughts alone is left out.
func withoutForeign(model string, contents gjson.Result) string {
	if !contents.IsArray() {
		return contents.Raw
	}
	var kept []string
	contents.ForEach(func(_, turn gjson.Result) bool {
		edit, root := wire.NewEditor(turn)
		empty := false
		edit.Members(root, func(name string, value gjson.Result) bool {
			if name == "parts" && value.IsArray() {
				parts := withoutForeignParts(model, value)
				empty = parts == "[]" && value.Get("0").Exists()
				edit.Replace(value, parts)
			}
			return false
		})
		if !empty {
			kept = append(kept, edit.End())
		}
		return true
	})
	return "[" + strings.Join(kept, ",") + "]"
}

func withoutForeignParts(model string, parts gjson.Result) string {
	var kept []string
	parts.ForEach(func(_, part gjson.Result) bool {
		signature := part.Get("thoughtSignature")
		if !signature.Exists() {
			signature = part.Get("thought_signature")
		}
		if !strings.HasPrefix(signature.Str, ownMark) {
			kept = append(kept, part.Raw)
			return true
		}
		if part.Get("thought").Bool() {
			return true
		}
		isCall := part.Get("functionCall").Exists() || part.Get("function_call").Exists()
		edit, root := wire.NewEditor(part)
		edit.Members(root, func(name string, value gjson.Result) bool {
			if name != "thoughtSignature" && name != "thought_signature" {
				return false
			}
			if !isCall || !wantsSignature(model) {
				return true
			}
			edit.Replace(value, `"`+unsigned+`"`)
			return false
		})
		kept = append(kept, edit.End())
		return true
	})
	return "[" + strings.Join(kept, ",") + "]"
}
