package slack

import (
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// Bounds of blocks, in characters.
const (
	maxSection  = 3000
	maxElements = 25
	maxLabel    = 75
	maxActionID = 255
	maxURL      = 3000
	maxValue    = 2000
)

// block is a block as far as it is checked: sections and buttons.
type block struct {
	Type     string   `json:"type"`
	Text     *line    `json:"text"`
	Elements []button `json:"elements"`
}

type line struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type button struct {
	Type     string `json:"type"`
	ActionID string `json:"action_id"`
	Text     line   `json:"text"`
	Style    string `json:"style"`
	URL      string `json:"url"`
	Value    string `json:"value"`
}

// checkBlocks returns the service's error for blocks that it would refuse.
func checkBlocks(raw json.RawMessage) error {
	var blocks []block
	if err := json.Unmarshal(raw, &blocks); err != nil || len(blocks) > maxBlocks {
		return errInvalidBlocks
	}
	for _, b := range blocks {
		if b.Type == "" || !b.valid() {
			return errInvalidBlocks
		}
	}
	return nil
}

func (b block) valid() bool {
	switch b.Type {
	case "section":
		return b.Text == nil || within(b.Text.Text, 1, maxSection)
	case "actions":
		seen := map[string]bool{}
		for _, e := range b.Elements {
			if !e.valid() || seen[e.ActionID] {
				return false
			}
			seen[e.ActionID] = true
		}
		return len(b.Elements) > 0 && len(b.Elements) <= maxElements
	}
	return true
}

func (e button) valid() bool {
	return e.Type == "button" && e.Text.Type == "plain_text" && within(e.Text.Text, 1, maxLabel) &&
		within(e.ActionID, 1, maxActionID) && within(e.URL, 0, maxURL) && within(e.Value, 0, maxValue) &&
		slices.Contains([]string{"", "primary", "danger"}, e.Style)
}

func within(text string, least, most int) bool {
	n := utf8.RuneCountInString(text)
	return n >= least && n <= most
}
