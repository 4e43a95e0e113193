package sampling

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// message is a turn of a conversation. Content is a block or an array of blocks.
type message struct {
	Role    string         `json:"role"`
	Content jsontext.Value `json:"content"`
}

// block is a block of content; which members it has depends on its type.
type block struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
	// Data and MIMEType are of an image.
	Data     string `json:"data"`
	MIMEType string `json:"mimeType"`
	// ID, Name and Input are of the use of a tool, and what follows of its result.
	ID         string         `json:"id"`
	Name       string         `json:"name"`
	Input      jsontext.Value `json:"input"`
	ToolUseID  string         `json:"toolUseId"`
	Content    jsontext.Value `json:"content"`
	Structured jsontext.Value `json:"structuredContent"`
	IsError    bool           `json:"isError"`
}

// Types of blocks.
const (
	typeText       = "text"
	typeImage      = "image"
	typeAudio      = "audio"
	typeToolUse    = "tool_use"
	typeToolResult = "tool_result"
)

// imageTypes are the types of images that vendors take.
var imageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}

// conversation is a conversation as it is translated.
type conversation struct {
	messages []provider.Message
	// tools reports whether tools may be used in it, and open are the uses of the last turn that have no result yet.
	tools bool
	open  []string
}

// appendMessages appends a server's messages in the form of requests.
func appendMessages(to []provider.Message, messages []message, tools bool) ([]provider.Message, error) {
	c := conversation{messages: to, tools: tools}
	for i := range messages {
		if err := c.append(at("params.messages", i), &messages[i]); err != nil {
			return nil, err
		}
	}
	if len(c.open) > 0 {
		return nil, apierr.Invalid("params.messages", "must end with the results of all tools that were used")
	}
	return c.messages, nil
}

func (c *conversation) append(field string, m *message) error {
	role := provider.Role(m.Role)
	if role != provider.RoleUser && role != provider.RoleAssistant {
		return apierr.Invalid(field+".role", "must be user or assistant")
	}
	blocks, fieldOf, err := m.blocks(field + ".content")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(blocks, func(b block) bool { return b.Type == typeToolResult }) || len(c.open) > 0 {
		return c.appendResults(role, blocks, field, fieldOf)
	}
	out := provider.Message{Role: role}
	for i := range blocks {
		if err := c.appendBlock(&out, &blocks[i], fieldOf(i)); err != nil {
			return err
		}
	}
	c.messages = append(c.messages, out)
	return nil
}

// blocks returns the blocks of a message, and a function that returns the path of each.
func (m *message) blocks(field string) ([]block, func(i int) string, error) {
	if m.Content.Kind() == '{' {
		var one block
		err := decode(m.Content, field, &one)
		return []block{one}, func(int) string { return field }, err
	}
	if m.Content.Kind() != '[' {
		return nil, nil, apierr.Invalid(field, "must be an object or an array")
	}
	all, err := list[block](m.Content, field, maxBlocks)
	if err == nil && len(all) == 0 {
		err = apierr.Invalid(field, "must not be empty")
	}
	return all, func(i int) string { return at(field, i) }, err
}

// appendBlock appends a block that is no result of a tool.
func (c *conversation) appendBlock(to *provider.Message, b *block, field string) error {
	switch b.Type {
	case typeText:
		if b.Text == nil {
			return apierr.Invalid(field+".text", "is required")
		}
		to.Content = append(to.Content, provider.Part{Text: *b.Text})
	case typeImage:
		part, err := b.image(to.Role, field)
		if err != nil {
			return err
		}
		to.Content = append(to.Content, part)
	case typeAudio:
		return apierr.Invalid(field+".type", "audio is not supported")
	case typeToolUse:
		return c.appendUse(to, b, field)
	default:
		return apierr.Invalid(field+".type", "must be text, image, tool_use or tool_result")
	}
	return nil
}

// image returns an image as a part of a message.
func (b *block) image(role provider.Role, field string) (provider.Part, error) {
	switch {
	case role != provider.RoleUser:
		return provider.Part{}, apierr.Invalid(field+".type", "images are for user messages only")
	case !slices.Contains(imageTypes, b.MIMEType):
		return provider.Part{}, apierr.Invalid(field+".mimeType", "must be image/png, image/jpeg, image/webp or image/gif")
	case !isBase64(b.Data):
		return provider.Part{}, apierr.Invalid(field+".data", "must be base64")
	}
	return provider.Part{ImageURL: "data:" + b.MIMEType + ";base64," + b.Data, Field: field + ".data"}, nil
}

// appendUse appends the use of a tool to the turn that made it.
func (c *conversation) appendUse(to *provider.Message, b *block, field string) error {
	switch {
	case !c.tools:
		return apierr.Invalid(field+".type", errNoTools)
	case to.Role != provider.RoleAssistant:
		return apierr.Invalid(field+".type", "tools are used by assistant messages only")
	case b.ID == "" || len(b.ID) > maxID:
		return apierr.Invalid(field+".id", fmt.Sprintf("must have 1 to %d bytes", maxID))
	case slices.Contains(c.open, b.ID):
		return apierr.Invalid(field+".id", "appears twice")
	case !toolName.MatchString(b.Name):
		return apierr.Invalid(field+".name", ruleName)
	case b.Input.Kind() != '{':
		return apierr.Invalid(field+".input", "must be an object")
	}
	to.ToolCalls = append(to.ToolCalls, provider.ToolCall{Index: len(to.ToolCalls), ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
	c.open = append(c.open, b.ID)
	return nil
}

// appendResults appends the results of the tools that the turn before used: all of them and nothing else, each as a
// message.
func (c *conversation) appendResults(role provider.Role, blocks []block, field string, fieldOf func(i int) string) error {
	switch {
	case !c.tools:
		return apierr.Invalid(field+".content", errNoTools)
	case role != provider.RoleUser:
		return apierr.Invalid(field+".role", "must be user in the message with tool results, which follows the message with the tool calls")
	}
	for i := range blocks {
		b, field := &blocks[i], fieldOf(i)
		if b.Type != typeToolResult {
			return apierr.Invalid(field+".type", "must be tool_result, as in all of a message that follows one that uses tools")
		}
		used := slices.Index(c.open, b.ToolUseID)
		if used < 0 {
			return apierr.Invalid(field+".toolUseId", "must be the id of a tool_use in the message before, and in one result only")
		}
		c.open = slices.Delete(c.open, used, used+1)
		content, err := b.result(field)
		if err != nil {
			return err
		}
		c.messages = append(c.messages, provider.Message{Role: provider.RoleTool, ToolCallID: b.ToolUseID, Content: content})
	}
	if len(c.open) > 0 {
		return apierr.Invalid(field+".content", "must have a result of each tool that the message before uses")
	}
	return nil
}

// failed is put before what a tool says that failed: vendors have no other place for it.
const failed = "The tool failed: "

// result returns what a tool's result says: its texts, or its structured content where it has none.
func (b *block) result(field string) ([]provider.Part, error) {
	content, err := list[block](b.Content, field+".content", maxBlocks)
	if err != nil {
		return nil, err
	}
	var parts []provider.Part
	if b.IsError {
		parts = append(parts, provider.Part{Text: failed})
	}
	for i := range content {
		inner := &content[i]
		if inner.Type != typeText || inner.Text == nil {
			return nil, apierr.Invalid(at(field+".content", i), "must be text: no other result of a tool is supported")
		}
		parts = append(parts, provider.Part{Text: *inner.Text})
	}
	if len(content) == 0 {
		parts = append(parts, provider.Part{Text: string(b.Structured)})
	}
	return parts, nil
}

// isBase64 reports whether a text has the form of base64 (RFC 4648), with padding.
func isBase64(text string) bool {
	if text == "" || len(text)%4 != 0 {
		return false
	}
	padding := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '=':
			padding++
		case padding > 0, c != '+' && c != '/' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z'):
			return false
		}
	}
	return padding <= 2
}
