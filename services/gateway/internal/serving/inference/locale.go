package inference

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Instruction tells a model which language to answer in.
func Instruction(locale string, force bool) string {
	text := "Respond in " + locale + "."
	if force {
		text += " Use no other language, even when the input is in one."
	}
	return text
}

// localize puts the instruction about the answer's language first. Each dialect
// carries system messages in its own way. A native body has it already, from the
// face that knows its form.
func localize(r *Request) {
	if r.Locale == "" {
		return
	}
	instruction := provider.Message{Role: provider.RoleSystem, Content: []provider.Part{{Text: Instruction(r.Locale, r.ForceLocale)}}}
	r.Chat.Messages = append([]provider.Message{instruction}, r.Chat.Messages...)
}
