package provider

import (
	"slices"
	"strings"
	"unicode"
)

// Texts says which texts a vendor accepts in a conversation.
type Texts int

// The values of Texts.
const (
	// TextsAny accepts every text.
	TextsAny Texts = iota
	// TextsNotEmpty refuses empty texts.
	TextsNotEmpty
	// TextsNotBlank refuses texts of only white space, and white space at the end of an answer to be continued.
	TextsNotBlank
)

// refuses reports whether the vendor refuses a part of a message.
func (t Texts) refuses(p *Part) bool {
	switch {
	case p.ImageURL != "" || p.File != nil:
		return false
	case t == TextsNotBlank:
		return IsBlank(p.Text)
	}
	return t == TextsNotEmpty && p.Text == ""
}

// converse adapts the messages to what the vendor accepts. Rules about the first and the last message apply to the
// messages that are sent: those that are left without blank texts.
func (f *Fitted) converse(t *Terms) error {
	f.adapt(resultsFirst)
	f.adapt(t.RefusedInResults.split)
	asked := endsWithAnswer(f.Messages)
	f.adapt(t.Texts.filter)
	if t.SystemApart {
		f.adapt(instructionsFirst)
	}
	begin := slices.IndexFunc(f.Messages, func(m Message) bool { return m.Role != RoleSystem })
	switch continues := endsWithAnswer(f.Messages); {
	case t.SystemApart && begin < 0:
		return Unsupported("messages", "this provider needs a message that isn't blank")
	case t.UserFirst && begin >= 0 && f.Messages[begin].Role == RoleAssistant:
		return Unsupported("messages[0].role", "conversations with this provider begin with the user")
	case continues && !asked:
		return Unsupported("messages", "without blank texts, which this provider refuses, the assistant's message is the last")
	case continues && t.NoPrefill:
		return Unsupported("messages", "this model doesn't continue an answer: the last message must not be the assistant's")
	case continues && t.Texts == TextsNotBlank:
		f.adapt(trimEnd)
	}
	return nil
}

// adapt replaces the messages, and records whether they changed.
func (f *Fitted) adapt(change func(messages []Message) (adapted []Message, changed bool)) {
	adapted, changed := change(f.Messages)
	f.Messages, f.Rewritten = adapted, f.Rewritten || changed
}

// endsWithAnswer reports whether the last message is the assistant's.
func endsWithAnswer(messages []Message) bool {
	return len(messages) > 0 && messages[len(messages)-1].Role == RoleAssistant
}

// filter removes the texts that the vendor refuses and the messages that become empty, except results of calls. A cache
// point on a removed text moves to the part before it. removed reports whether it removed a text, other than the empty
// text of a result that has no other: every vendor accepts an empty result.
func (t Texts) filter(messages []Message) (kept []Message, removed bool) {
	if t == TextsAny {
		return messages, false
	}
	kept = make([]Message, 0, len(messages))
	for _, m := range messages {
		isEmpty := m.Role == RoleTool && len(m.Content) == 1 && m.Content[0].Text == ""
		if slices.ContainsFunc(m.Content, func(p Part) bool { return t.refuses(&p) }) {
			m.Content, removed = t.filterParts(m.Content), removed || !isEmpty
		}
		if len(m.Content) > 0 || len(m.ToolCalls) > 0 || m.Role == RoleTool {
			kept = append(kept, m)
		}
	}
	return kept, removed
}

func (t Texts) filterParts(parts []Part) []Part {
	kept := make([]Part, 0, len(parts))
	for _, p := range parts {
		switch last := len(kept) - 1; {
		case !t.refuses(&p):
			kept = append(kept, p)
		case p.Cache != "" && last >= 0:
			kept[last].Cache = p.Cache
		}
	}
	return kept
}

// instructionsFirst returns the messages for a vendor that has a system prompt, of texts, apart from the conversation. The
// conversation begins with the first message that can't be in the prompt. From there on, system messages become user
// turns in their places: in the prompt they would apply to earlier turns as well, and would invalidate the vendor's
// prompt cache. If all messages are instructions, the last one becomes the user's turn, because the vendor refuses a
// conversation without turns.
func instructionsFirst(messages []Message) (turns []Message, changed bool) {
	begun := false
	turns = slices.Clone(messages)
	for i := range turns {
		m := &turns[i]
		begun = begun || m.Role != RoleSystem || !m.isText() || i == len(turns)-1
		if begun && m.Role == RoleSystem {
			m.Role, changed = RoleUser, true
		}
	}
	return turns, changed
}

// isText reports whether a message has no images and no documents.
func (m *Message) isText() bool {
	return !slices.ContainsFunc(m.Content, func(p Part) bool { return p.ImageURL != "" || p.File != nil })
}

// trimEnd removes white space from the end of the last message's text.
func trimEnd(messages []Message) (trimmed []Message, changed bool) {
	trimmed = slices.Clone(messages)
	m := &trimmed[len(trimmed)-1]
	if last := len(m.Content) - 1; last >= 0 && len(m.ToolCalls) == 0 {
		m.Content = slices.Clone(m.Content)
		text := &m.Content[last].Text
		before := *text
		*text = strings.TrimRightFunc(before, unicode.IsSpace)
		changed = *text != before
	}
	return trimmed, changed
}
