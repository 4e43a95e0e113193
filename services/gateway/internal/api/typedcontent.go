package api

import (
	"fmt"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/platform/apierr"
)

// plainContent replaces the typed content of messages by the JSON that means the same. From there on a message has one
// form, so both forms have the same rules, reach a provider as the same bytes, and are captured as the same text.
func plainContent(messages []*gatewayv1.ChatMessage) error {
	for i, m := range messages {
		if m.GetTypedContent() == nil {
			continue
		}
		if len(m.GetContent()) > 0 {
			return apierr.Invalid(dialect.At("messages", i)+".content", "must not be set together with text or parts")
		}
		content, err := toContentJSON(m)
		if err != nil {
			return apierr.Internal(fmt.Errorf("content of a message: %w", err))
		}
		m.Content, m.TypedContent = content, nil
	}
	return nil
}

func toContentJSON(m *gatewayv1.ChatMessage) ([]byte, error) {
	if _, ok := m.GetTypedContent().(*gatewayv1.ChatMessage_Text); ok {
		return jsontext.AppendText(nil, m.GetText()), nil
	}
	parts := make([]part, len(m.GetParts().GetParts()))
	for i, p := range m.GetParts().GetParts() {
		if image := p.GetImageUrl(); image != nil {
			parts[i] = part{Type: "image_url", ImageURL: &partImage{image.GetUrl(), image.GetDetail()}}
		} else {
			parts[i] = part{Type: "text", Text: new(p.GetText())}
		}
	}
	return jsontext.Marshal(parts)
}
