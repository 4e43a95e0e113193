package anthropic

import (
	"encoding/json"
	"html"
	"strings"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/platform/apierr"
)

// system reads the system prompt: a text or text blocks.
func (r *reader) system() error {
	raw := r.Raw("system")
	if raw == nil {
		return nil
	}
	turns, err := r.content("system", provider.RoleSystem, raw)
	if err != nil {
		return err
	}
	r.chat.Chat.Messages = append(r.chat.Chat.Messages, turns...)
	return nil
}

func (r *reader) messages() error {
	raw, err := dialect.Elements("messages", r.Raw("messages"))
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return apierr.Invalid("messages", "must hold a message")
	}
	for i, one := range raw {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		path := dialect.At("messages", i)
		err := dialect.Unambiguous(path, one, "role", "content")
		if err == nil {
			err = dialect.Decode(path, one, &m)
		}
		if err != nil {
			return err
		}
		if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
			return apierr.Invalid(path+".role", "must be user or assistant")
		}
		if len(m.Content) == 0 {
			return apierr.Invalid(path+".content", "is required")
		}
		turns, err := r.content(path+".content", provider.Role(m.Role), m.Content)
		if err != nil {
			return err
		}
		r.chat.Chat.Messages = append(r.chat.Chat.Messages, turns...)
	}
	return nil
}

// part is a content block; other types are this dialect's only.
type part struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Source struct {
		Type      string `json:"type"`
		URL       string `json:"url"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	ExtraContent json.RawMessage `json:"extra_content"`
	ToolUseID    string          `json:"tool_use_id"`
	Content      json.RawMessage `json:"content"`
	Title        string          `json:"title"`
	IsError      bool            `json:"is_error"`
	Thinking     string          `json:"thinking"`
	Signature    string          `json:"signature"`
}

// fields are the fields of each type of block that every dialect can carry.
var fields = map[string][]string{
	"text": {"text"}, "image": {"source"}, "document": {"source", "title"}, "tool_use": {"id", "name", "input", "extra_content"},
	"tool_result": {"tool_use_id", "content", "is_error"},
}

// content reads a turn. In all other dialects tool results are turns of their own; they come before what the user says
// in the same turn, as they must here.
func (r *reader) content(path string, role provider.Role, raw json.RawMessage) ([]provider.Message, error) {
	if raw[0] == '"' {
		var text string
		err := dialect.Decode(path, raw, &text)
		return []provider.Message{{Role: role, Content: []provider.Part{{Text: text}}}}, err
	}
	elements, err := dialect.Elements(path, raw)
	if err != nil {
		return nil, apierr.Invalid(path, "must be a string or an array of blocks")
	}
	turn := provider.Message{Role: role}
	var turns []provider.Message
	var kept vendor.Thinking
	thought := false
	for i, one := range elements {
		at := dialect.At(path, i)
		p, err := r.part(at, one)
		if err != nil {
			return nil, err
		}
		switch p.Type {
		case "text":
			turn.Content = append(turn.Content, provider.Part{Text: p.Text})
		case "image":
			image, err := r.image(at, p)
			if err != nil {
				return nil, err
			}
			turn.Content = append(turn.Content, image)
		case "document":
			document, ok, err := r.document(at, p)
			if err != nil {
				return nil, err
			}
			if ok {
				turn.Content = append(turn.Content, document)
			}
		case "tool_use":
			call := provider.ToolCall{Index: len(turn.ToolCalls), ID: p.ID, Name: p.Name, Arguments: string(p.Input), Extra: p.ExtraContent}
			if state := kept.Take(); call.Extra == nil {
				call.Extra = state
			}
			turn.ToolCalls = append(turn.ToolCalls, call)
		case typeThinking, "redacted_thinking":
			if p.Signature == vendor.OwnSignature {
				turn.Reasoning += p.Thinking
				thought = true
				continue
			}
			kept.Add(one, len(turn.Content) > 0 || len(turn.ToolCalls) > 0)
		case "tool_result":
			result, images, err := r.result(at, p)
			if err != nil {
				return nil, err
			}
			turns = append(turns, result)
			turn.Content = append(turn.Content, images...)
		}
	}
	if thought {
		r.chat.Thought(typeThinking, turn.ToolCalls)
	}
	if len(turn.Content) > 0 || len(turn.ToolCalls) > 0 || len(turns) == 0 {
		turns = append(turns, turn)
	}
	return turns, nil
}

func (r *reader) part(path string, raw json.RawMessage) (part, error) {
	var p part
	object, err := element(path, raw)
	if err != nil {
		return p, err
	}
	var kind string
	if err := object.Take("type", &kind); err != nil {
		return p, apierr.Invalid(path+".type", "must be a string")
	}
	common, known := fields[kind]
	switch {
	case known:
	case kind == typeThinking || kind == "redacted_thinking":
		err := dialect.Decode(path, raw, &p)
		if p.Signature != vendor.OwnSignature { // Other vendors get no thinking.
			r.chat.Ignores(kind)
		}
		return p, err
	case kind == "search_result": // All of it is in the body.
		r.chat.Restrict(path + ".type")
		return p, nil
	default:
		r.chat.Open(path + ".type") // container_upload, server tools, …
		return p, nil
	}
	if err := dialect.Decode(path, raw, &p); err != nil {
		return p, err
	}
	r.chat.State("extra_content", p.ExtraContent, "anthropic")
	object.Ignore(common...)
	for _, field := range object.Rest() { // cache_control, citations, caller, …
		r.chat.Ignores(field)
	}
	return p, nil
}

func (r *reader) image(path string, p part) (provider.Part, error) {
	switch {
	case p.Source.Type == "url" && strings.HasPrefix(p.Source.URL, "https://"):
		return provider.Part{ImageURL: p.Source.URL, Field: path + ".source.url"}, nil
	case p.Source.Type == "url":
		return provider.Part{}, apierr.Invalid(path+".source.url", "must be an https URL")
	case p.Source.Type == "base64":
		return provider.Part{ImageURL: "data:" + p.Source.MediaType + ";base64," + p.Source.Data, Field: path + ".source.data"}, nil
	}
	r.chat.Open(path + ".source.type") // file
	return provider.Part{}, nil
}

// document reads a document by its bytes, its text or its URL; other sources are this dialect's only.
func (r *reader) document(path string, p part) (document provider.Part, ok bool, err error) {
	switch p.Source.Type {
	case "text":
		return provider.Part{Text: titled(p.Title, p.Source.Data)}, true, nil
	case "base64":
		f := &provider.File{Name: p.Title, URL: "data:" + p.Source.MediaType + ";base64," + p.Source.Data}
		return provider.Part{File: f, Field: path + ".source.data"}, true, nil
	case "url":
		if !strings.HasPrefix(p.Source.URL, "https://") {
			return document, false, apierr.Invalid(path+".source.url", "must be an https URL")
		}
		r.chat.Bounds.OpenInput = true
		return provider.Part{File: &provider.File{Name: p.Title, URL: p.Source.URL}, Field: path + ".source.url"}, true, nil
	}
	r.chat.Open(path + ".source.type") // file, content
	return document, false, nil
}

// titled wraps a document's text in a document tag with its title, so that the model can tell it from the user's own
// words.
func titled(title, text string) string {
	if title == "" {
		return "<document>\n" + text + "\n</document>"
	}
	return `<document title="` + html.EscapeString(title) + "\">\n" + text + "\n</document>"
}

// result reads a tool's result. An error is stated in the text, since other dialects have no field for it. Images are
// returned for the user's turn behind the results: few vendors have a place for them in a result.
func (r *reader) result(path string, p part) (result provider.Message, images []provider.Part, err error) {
	out := provider.Message{Role: provider.RoleTool, ToolCallID: p.ToolUseID}
	if p.ToolUseID == "" {
		return out, nil, apierr.Invalid(path+".tool_use_id", "is required")
	}
	if p.IsError {
		out.Content = append(out.Content, provider.Part{Text: "The tool failed:"})
	}
	if len(p.Content) == 0 || string(p.Content) == "null" {
		return out, nil, nil
	}
	turns, err := r.content(path+".content", provider.RoleTool, p.Content)
	if err != nil {
		return out, nil, err
	}
	for _, turn := range turns {
		for _, piece := range turn.Content {
			if piece.ImageURL != "" || piece.File != nil {
				images = append(images, piece)
				continue
			}
			out.Content = append(out.Content, piece)
		}
	}
	if len(out.Content) == 0 && len(images) > 0 {
		out.Content = []provider.Part{{Text: "The result follows below."}}
	}
	return out, images, nil
}
