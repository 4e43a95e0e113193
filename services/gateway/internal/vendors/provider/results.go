package provider

import "slices"

// Attachments is a set of kinds of images and documents in messages.
type Attachments uint8

// The kinds. A document that is a text can become one.
const (
	AttachedImages Attachments = 1 << iota
	AttachedTexts
	AttachedDocuments

	// AttachedAll are all kinds.
	AttachedAll = AttachedImages | AttachedTexts | AttachedDocuments
)

// attachmentOf returns the kind of a part; 0 for a text.
func attachmentOf(p *Part) Attachments {
	switch {
	case p.ImageURL != "":
		return AttachedImages
	case p.File == nil:
		return 0
	}
	if _, ok := p.File.PlainText(); ok {
		return AttachedTexts
	}
	return AttachedDocuments
}

// split returns messages without the kinds of content in results. Texts become a part of their result. Images and other
// documents move into a turn of the user behind all results of the turn, and their result announces them. changed
// reports whether there were any.
func (m Attachments) split(messages []Message) (out []Message, changed bool) {
	holds := func(result Message) bool {
		return result.Role == RoleTool &&
			slices.ContainsFunc(result.Content, func(p Part) bool { return attachmentOf(&p)&m != 0 })
	}
	if m == 0 || !slices.ContainsFunc(messages, holds) {
		return messages, false
	}
	var behind []Part
	for i, message := range messages {
		if holds(message) {
			var moved []Part
			message.Content, moved = m.splitResult(message.Content)
			behind = append(behind, moved...)
		}
		out = append(out, message)
		if last := i == len(messages)-1 || messages[i+1].Role != RoleTool; last && behind != nil {
			out, behind = append(out, Message{Role: RoleUser, Content: behind}), nil
		}
	}
	return out, true
}

// splitResult returns the parts of a result, and those that move behind it.
func (m Attachments) splitResult(parts []Part) (kept, moved []Part) {
	for _, p := range parts {
		switch kind := attachmentOf(&p); {
		case kind&m == 0:
			kept = append(kept, p)
		case kind == AttachedTexts:
			text, _ := p.File.NamedText()
			kept = append(kept, Part{Text: text, Cache: p.Cache})
		default:
			kept, moved = append(kept, Part{Text: announcement(&p)}), append(moved, p)
		}
	}
	return kept, moved
}

// announcement is the text in a result in place of an image or a document.
func announcement(p *Part) string {
	switch {
	case p.File == nil:
		return "The image follows below."
	case p.File.Name == "":
		return "The document follows below."
	}
	return "The document " + p.File.Name + " follows below."
}
