package provider

import (
	"encoding/json"
	"errors"
	"strings"
)

// content holds what the fake reads from a message's content in any dialect.
type content struct {
	text       string
	images     int
	toolResult *string
	results    int // results of tools
	// forged: a block of thinking has a signature that isn't this fake's.
	forged bool
}

// block is a content part of OpenAI, of either of its APIs, or a content block of Anthropic.
type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"` // of a tool_result
	// Signature is that of a block of thinking.
	Signature string `json:"signature"`
}

// readContent reads a string, null, or a list of parts.
func readContent(raw json.RawMessage) (content, error) {
	var c content
	if len(raw) == 0 || string(raw) == "null" {
		return c, nil
	}
	if err := json.Unmarshal(raw, &c.text); err == nil {
		return c, nil
	}
	var blocks []block
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return content{}, errors.New("invalid content: expected a string or an array of objects")
	}
	var texts []string
	for _, b := range blocks {
		switch b.Type {
		case "text", "input_text", "output_text":
			texts = append(texts, b.Text)
		case "image_url", "image", "input_image":
			c.images++
		case "thinking", "redacted_thinking":
			c.forged = c.forged || !strings.HasPrefix(b.Signature, signaturePrefix)
		case "tool_result":
			inner, err := readContent(b.Content)
			if err != nil {
				return content{}, err
			}
			c.toolResult = joinResult(c.toolResult, inner.text)
			c.results++
			c.images += inner.images
		}
	}
	c.text = strings.Join(texts, "")
	return c, nil
}

// joinResult appends a tool's result to those before it in the same turn.
func joinResult(before *string, text string) *string {
	if before == nil {
		return &text
	}
	return new(*before + ", " + text)
}
