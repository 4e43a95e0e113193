package openai

import (
	"cmp"
	"encoding/json"
	"strings"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

type message struct {
	Role         string          `json:"role"`
	Content      json.RawMessage `json:"content"`
	Name         string          `json:"name"`
	ToolCalls    []toolCall      `json:"tool_calls"`
	ToolCallID   string          `json:"tool_call_id"`
	Refusal      *string         `json:"refusal"`
	Audio        json.RawMessage `json:"audio"`
	FunctionCall json.RawMessage `json:"function_call"`
	// The reasoning of an earlier answer, under the names that servers of this dialect use.
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	// The images and sources of an earlier answer.
	Images      json.RawMessage `json:"images"`
	Annotations json.RawMessage `json:"annotations"`
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
		var m message
		path := dialect.At("messages", i)
		if !m.readPlain(one) {
			m = message{}
			err := dialect.Unambiguous(path, one, "role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call")
			if err == nil {
				err = dialect.Decode(path, one, &m)
			}
			if err != nil {
				return err
			}
		}
		converted, err := r.message(path, m)
		if err != nil {
			return err
		}
		r.chat.Chat.Messages = append(r.chat.Chat.Messages, converted)
	}
	return nil
}

// readPlain decodes a message that consists of texts, as most do, in one pass; false leaves it to encoding/json, which
// also accepts names in other letter case.
func (m *message) readPlain(raw json.RawMessage) bool {
	o, err := dialect.Members(raw)
	if err != nil {
		return false
	}
	for _, field := range [...]struct {
		name string
		into *string
	}{{"role", &m.Role}, {"name", &m.Name}, {"tool_call_id", &m.ToolCallID}} {
		var ok bool
		if !o.Has(field.name) {
			continue
		}
		if *field.into, ok = dialect.Text(o.Raw(field.name)); !ok {
			return false
		}
	}
	m.Content = o.Raw("content")
	return len(o.Rest()) == 0
}

func (r *reader) message(path string, m message) (provider.Message, error) {
	out := provider.Message{Role: provider.Role(m.Role), Name: m.Name, ToolCallID: m.ToolCallID}
	switch m.Role {
	case "developer": // The newer name of the same role.
		out.Role = provider.RoleSystem
	case "system", "user", "assistant":
	case "tool":
		if m.ToolCallID == "" {
			return out, apierr.Invalid(path+".tool_call_id", "is required in a tool message")
		}
	case "function":
		r.functionResult(path, &out)
	default:
		return out, apierr.Invalid(path+".role", "must be developer, system, user, assistant, tool or function")
	}
	if given(m.Audio) {
		r.chat.Open(path + ".audio")
	}
	if given(m.FunctionCall) {
		call, err := r.functionCall(path+".function_call", m.FunctionCall)
		if err != nil {
			return out, err
		}
		out.ToolCalls = append(out.ToolCalls, call)
	}
	for i, call := range m.ToolCalls {
		if call.Type != "" && call.Type != typeFunction {
			r.chat.Restrict(dialect.At(path+".tool_calls", i) + ".type")
			continue
		}
		r.chat.State("extra_content", call.ExtraContent, "google")
		out.ToolCalls = append(out.ToolCalls, provider.ToolCall{
			Index: len(out.ToolCalls), ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments, Extra: call.ExtraContent,
		})
	}
	out.Reasoning = r.thought(m)
	r.ignoreParts(m)
	var err error
	out.Content, err = r.content(path+".content", m.Content)
	if m.Refusal != nil && *m.Refusal != "" {
		out.Content = append(out.Content, provider.Part{Text: *m.Refusal})
	}
	return out, err
}

// thought returns the plain-text reasoning in a message and records its fields as hints.
func (r *reader) thought(m message) (text string) {
	for _, member := range []struct {
		name string
		raw  json.RawMessage
	}{{"reasoning_content", m.ReasoningContent}, {"reasoning", m.Reasoning}} {
		var value string
		if json.Unmarshal(member.raw, &value) == nil && value != "" {
			r.chat.Hint(provider.HintReasoning, member.name)
			text = cmp.Or(text, value)
		}
	}
	return text
}

// ignoreParts records the parts of an earlier answer that only servers of this dialect read.
func (r *reader) ignoreParts(m message) {
	for _, member := range []struct {
		name string
		raw  json.RawMessage
	}{{"reasoning_details", m.ReasoningDetails}, {"images", m.Images}, {"annotations", m.Annotations}} {
		if given(member.raw) && string(member.raw) != "[]" {
			r.chat.Ignores(member.name)
		}
	}
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// part is a content part; other types are this dialect's only.
type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	} `json:"image_url"`
	File struct {
		Name string `json:"filename"`
		Data string `json:"file_data"`
	} `json:"file"`
	// CacheControl is Anthropic's, as routers of several vendors take it on this face.
	CacheControl *struct {
		TTL string `json:"ttl"`
	} `json:"cache_control"`
}

func (r *reader) content(path string, raw json.RawMessage) ([]provider.Part, error) {
	if !given(raw) {
		return nil, nil
	}
	if raw[0] == '"' {
		var text string
		if err := dialect.Decode(path, raw, &text); err != nil {
			return nil, err
		}
		return []provider.Part{{Text: text}}, nil
	}
	elements, err := dialect.Elements(path, raw)
	if err != nil {
		return nil, apierr.Invalid(path, "must be a string or an array of parts")
	}
	var parts []provider.Part
	for i, one := range elements {
		var p part
		at := dialect.At(path, i)
		err := dialect.Unambiguous(at, one, "type", "text", "refusal", "image_url", "file")
		if err == nil {
			err = dialect.Decode(at, one, &p)
		}
		if err != nil {
			return nil, err
		}
		switch p.Type {
		case "text":
			parts = append(parts, provider.Part{Text: p.Text})
		case "refusal":
			parts = append(parts, provider.Part{Text: p.Refusal})
		case "image_url":
			if !strings.HasPrefix(p.ImageURL.URL, "https://") && !strings.HasPrefix(p.ImageURL.URL, "data:") {
				return nil, apierr.Invalid(at+".image_url.url", "must be an https URL or a data: URI of an image")
			}
			parts = append(parts, provider.Part{ImageURL: p.ImageURL.URL, Detail: p.ImageURL.Detail, Field: at + ".image_url.url"})
		case "file":
			if f := (&provider.File{Name: p.File.Name, URL: p.File.Data}); p.File.Data == "" {
				r.chat.Open(at + ".file.file_id")
			} else if _, _, ok := f.Data(); ok {
				parts = append(parts, provider.Part{File: f, Field: at + ".file.file_data"})
			} else {
				return nil, apierr.Invalid(at+".file.file_data", "must be a data: URI in base64")
			}
		case "":
			return nil, apierr.Invalid(at+".type", "is required")
		case "input_audio": // Its bytes are in the body.
			r.chat.Restrict(at + ".type")
		default:
			r.chat.Open(at + ".type")
		}
		if p.CacheControl != nil && len(parts) > 0 {
			parts[len(parts)-1].Cache = provider.CacheLifeOf(p.CacheControl.TTL)
			r.chat.Hint(provider.HintCachePoint, "cache_control")
		}
	}
	return parts, nil
}
