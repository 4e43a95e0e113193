package inference

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Instruction returns the system message that sets the language of the answer.
func Instruction(locale string, force bool) string {
	text := "Respond in " + locale + "."
	if force {
		text += " Use no other language, even when the input is in one."
	}
	return text
}

// localize inserts the instruction about the answer's language as the first message. Each dialect carries system
// messages in its own way. The face of a native body has inserted it already.
func localize(r *Request) {
	if r.Locale == "" {
		return
	}
	instruction := provider.Message{Role: provider.RoleSystem, Content: []provider.Part{{Text: Instruction(r.Locale, r.ForceLocale)}}}
	r.Chat.Messages = append([]provider.Message{instruction}, r.Chat.Messages...)
}
