package channel

import (
	"strings"
	"unicode/utf8"

	"switchyard.dev/services/notify/internal/inbox"
)

// Bounds of Slack's blocks: the text of a section, in characters, and how many sections a message with buttons has.
const maxSection, maxSections = 3000, 4

// slackBlock is a block of a message: a section with a text, or the buttons.
type slackBlock struct {
	Type     string        `json:"type"`
	Text     *slackLine    `json:"text,omitempty"`
	Elements []slackButton `json:"elements,omitempty"`
}

// slackLine is a text object: mrkdwn, or plain_text, which has no markup.
type slackLine struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// slackButton is a button. Slack sends a click, with the value, to the endpoint of the app; with a URL it opens that,
// too.
type slackButton struct {
	Type     string    `json:"type"`
	ActionID string    `json:"action_id"`
	Text     slackLine `json:"text"`
	Style    string    `json:"style,omitempty"`
	URL      string    `json:"url,omitempty"`
	Value    string    `json:"value,omitempty"`
}

// slackBlocks returns a text, which is escaped, above the buttons, and whether it was shortened. A message without
// buttons needs no blocks.
func slackBlocks(text string, actions []inbox.Action) (blocks []slackBlock, cut bool) {
	if len(actions) == 0 {
		return nil, false
	}
	text, cut = cutSlack(text, maxSection*maxSections)
	for text != "" {
		head, rest := splitSlack(text, maxSection)
		if strings.TrimSpace(head) != "" { // Slack refuses an empty section.
			blocks = append(blocks, slackBlock{Type: "section", Text: &slackLine{"mrkdwn", head}})
		}
		text = rest
	}
	buttons := make([]slackButton, len(actions))
	for i, a := range actions {
		buttons[i] = slackButton{
			Type: "button", ActionID: a.ID, Text: slackLine{"plain_text", a.Label}, URL: a.URL, Value: a.Value,
		}
		if a.Style != "default" {
			buttons[i].Style = a.Style
		}
	}
	return append(blocks, slackBlock{Type: "actions", Elements: buttons}), cut
}

// cutSlack shortens an escaped text to a number of characters.
func cutSlack(text string, most int) (short string, cut bool) {
	if utf8.RuneCountInString(text) <= most {
		return text, false
	}
	head, _ := splitSlack(text, most-1)
	return head + "…", true
}

// splitSlack splits an escaped text after at most so many characters, and not within an escape.
func splitSlack(text string, most int) (head, rest string) {
	end, n := len(text), 0
	for i := range text {
		if n == most {
			end = i
			break
		}
		n++
	}
	head = text[:end]
	if at := strings.LastIndexByte(head, '&'); end < len(text) && at > len(head)-len("&amp;") && !strings.Contains(head[at:], ";") && at > 0 {
		head = head[:at]
	}
	return head, text[len(head):]
}
