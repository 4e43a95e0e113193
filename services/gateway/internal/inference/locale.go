package inference

import "switchyard.dev/services/gateway/internal/provider"

// localize puts the instruction about the answer's language first. Each dialect
// carries system messages in its own way.
func localize(r *Request) {
	if r.Locale == "" {
		return
	}
	text := "Respond in " + r.Locale + "."
	if r.ForceLocale {
		text += " Use no other language, even when the input is in one."
	}
	instruction := provider.Message{Role: provider.RoleSystem, Content: []provider.Part{{Text: text}}}
	r.Chat.Messages = append([]provider.Message{instruction}, r.Chat.Messages...)
}
