package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

type part struct {
	Type     string    `json:"type"`
	Text     *string   `json:"text,omitempty"`
	Thinking []part    `json:"thinking,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
	File     *file     `json:"file,omitempty"`
}

// file is a document by its bytes; the dialect has no URL for one.
type file struct {
	Name string `json:"filename"`
	Data string `json:"file_data"`
}

type imageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
}

type toolCall struct {
	ID           string          `json:"id,omitempty"`
	Type         string          `json:"type,omitempty"`
	Function     callee          `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

type callee struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// body is a request for a completion, with its members in the order of vendors' examples.
type body struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Tools               []tool          `json:"tools,omitempty"`
	ToolChoice          any             `json:"tool_choice,omitempty"`
	ResponseFormat      json.RawMessage `json:"response_format,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	TopP                *float64        `json:"top_p,omitempty"`
	Stop                []string        `json:"stop,omitempty"`
	Seed                *int64          `json:"seed,omitempty"`
	PresencePenalty     *float64        `json:"presence_penalty,omitempty"`
	FrequencyPenalty    *float64        `json:"frequency_penalty,omitempty"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls,omitempty"`
	Verbosity           string          `json:"verbosity,omitempty"`
	SafetyIdentifier    string          `json:"safety_identifier,omitempty"`
	PromptCacheKey      string          `json:"prompt_cache_key,omitempty"`
	reasoning
	Stream        bool           `json:"stream,omitempty"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage       bool  `json:"include_usage"`
	IncludeObfuscation *bool `json:"include_obfuscation,omitempty"`
}

type message struct {
	Role string `json:"role"`
	// Content is a string, parts, or null in a message of calls only.
	Content any `json:"content"`
	// A server that accepts reasoning back accepts one of these; OpenRouter accepts two. See Thought.
	ReasoningContent string          `json:"reasoning_content,omitempty"`
	Reasoning        string          `json:"reasoning,omitempty"`
	ReasoningDetails json.RawMessage `json:"reasoning_details,omitempty"`
	Name             string          `json:"name,omitempty"`
	ToolCalls        []toolCall      `json:"tool_calls,omitempty"`
	ToolCallID       string          `json:"tool_call_id,omitempty"`
}

// encode returns a request's body.
func (p *Provider) encode(chat *provider.Chat, stream bool) (json.RawMessage, error) {
	tools, err := p.encodeTools(chat.Tools)
	if err != nil {
		return nil, err
	}
	format, err := p.encodeFormat(chat.ResponseFormat)
	if err != nil {
		return nil, err
	}
	b := body{
		Model: chat.Model, Messages: p.encodeMessages(chat.Messages), Tools: tools,
		ResponseFormat: format, Temperature: chat.Temperature, TopP: chat.TopP, Stop: chat.Stop,
		Stream: stream, reasoning: encodeReasoning(p.traits.reasoning, chat.Model, chat.Reasoning),
	}
	b.encodeHints(chat, p.traits.takes(chat.Model))
	if chat.ToolChoice != nil {
		b.ToolChoice = encodeChoice(chat.ToolChoice)
	}
	if p.traits.completionTokens {
		b.MaxCompletionTokens = chat.MaxTokens
	} else {
		b.MaxTokens = chat.MaxTokens
	}
	if stream && p.traits.streamUsage {
		b.StreamOptions = &streamOptions{IncludeUsage: true}
		if p.traits.obfuscates { // false saves the padding of each chunk.
			b.StreamOptions.IncludeObfuscation = new(false)
		}
	}
	encoded, err := jsontext.Marshal(&b)
	if err != nil {
		return nil, wire.Unencodable(err)
	}
	return encoded, nil
}

// encodeHints sets the hints that the server takes for the model.
func (b *body) encodeHints(chat *provider.Chat, takes provider.Hint) {
	if takes&provider.HintSeed != 0 {
		b.Seed = chat.Seed
	}
	if takes&provider.HintPenalties != 0 {
		b.PresencePenalty, b.FrequencyPenalty = chat.PresencePenalty, chat.FrequencyPenalty
	}
	if takes&provider.HintOneCall != 0 && len(chat.Tools) > 0 { // Without tools the setting is refused.
		b.ParallelToolCalls = chat.ParallelTools
	}
	if takes&provider.HintVerbosity != 0 {
		b.Verbosity = chat.Verbosity
	}
	if takes&provider.HintEndUser != 0 {
		b.SafetyIdentifier = chat.EndUser
	}
	if takes&provider.HintCacheKey != 0 {
		b.PromptCacheKey = chat.CacheKey
	}
}

// checkFiles returns an error for documents that the server can't get: documents at a URL, which the dialect has no
// form for, and at OpenAI and Azure any but PDFs and texts.
func (p *Provider) checkFiles(messages []provider.Message) error {
	for i := range messages {
		for _, c := range messages[i].Content {
			if c.File == nil {
				continue
			}
			_, isText := c.File.PlainText()
			if _, _, ok := c.File.Data(); !ok {
				return provider.Unsupported("messages[].content", "this provider takes documents by their bytes, not by a URL")
			}
			if p.traits.enforces && !isText && c.File.Type() != provider.TypePDF {
				return provider.Unsupported("messages[].content", "this provider takes only PDFs and UTF-8 texts as documents")
			}
		}
	}
	return nil
}

// encodeMessages encodes the turns. It sends reasoning back with turns that make calls, and with the turn that follows
// their results.
func (p *Provider) encodeMessages(messages []provider.Message) []message {
	out := make([]message, 0, len(messages))
	for i := range messages {
		m := &messages[i]
		encoded := p.encodeMessage(m)
		if m.Role == provider.RoleAssistant && (len(m.ToolCalls) > 0 || i > 0 && messages[i-1].Role == provider.RoleTool) {
			p.encodeThought(&encoded, m)
		}
		if p.traits.mistral {
			out = orderForMistral(out, &encoded)
		}
		out = append(out, encoded)
	}
	return out
}

func (p *Provider) encodeMessage(m *provider.Message) message {
	out := message{Role: string(m.Role), Name: m.Name, ToolCalls: p.encodeCalls(m.ToolCalls), ToolCallID: p.toolID(m.ToolCallID)}
	switch {
	case len(m.Content) == 0 && len(m.ToolCalls) > 0:
	case slices.ContainsFunc(m.Content, func(c provider.Part) bool { return c.ImageURL != "" || c.File != nil }), p.listsTexts(m):
		out.Content = encodeParts(m.Content)
	default: // Many compatible servers accept only a string.
		out.Content = m.Text()
	}
	return out
}

// listsTexts reports whether a message of several texts is sent as a list of texts.
func (p *Provider) listsTexts(m *provider.Message) bool {
	return p.traits.textParts && len(m.Content) > 1 && (m.Role == provider.RoleSystem || m.Role == provider.RoleUser)
}

func (p *Provider) encodeCalls(calls []provider.ToolCall) []toolCall {
	out := make([]toolCall, len(calls))
	for i, call := range calls {
		out[i] = toolCall{
			ID: p.toolID(call.ID), Type: "function",
			Function: callee{call.Name, cmp.Or(call.Arguments, "{}")}, ExtraContent: p.extra(call.Extra),
		}
	}
	return out
}

func (p *Provider) encodeTools(tools []provider.Tool) ([]tool, error) {
	out := make([]tool, len(tools))
	arguments := p.traits.arguments()
	for i, t := range tools {
		field := "tools[" + strconv.Itoa(i) + "].function.parameters"
		var err error
		if t.Parameters, err = arguments.Fit(field, t.Parameters); err == nil && t.Strict && p.traits.enforces {
			t.Parameters, err = schema.OpenAI.Convert(field, t.Parameters)
		}
		if err != nil {
			return nil, err
		}
		out[i] = tool{Type: "function", Function: function(t)}
	}
	return out, nil
}

// encodeFormat returns the response format. If the server enforces OpenAI's rules for schemas, the root must be an
// object without anyOf, and a strict schema is converted to the rules.
func (p *Provider) encodeFormat(format json.RawMessage) (json.RawMessage, error) {
	const path, field = "json_schema.schema", "response_format.json_schema.schema"
	given := gjson.GetBytes(format, path)
	if !p.traits.enforces || given.Type == gjson.Null {
		return format, nil
	}
	root, strict := json.RawMessage(given.Raw), gjson.GetBytes(format, "json_schema.strict").Bool()
	if strict {
		var err error
		if root, err = schema.OpenAI.Convert(field, root); err != nil {
			return nil, err
		}
	}
	if view := wire.ParseView(root); view.Get("type").Str != "object" || view.Get("anyOf").Exists() {
		return nil, provider.Unsupported(field, "this provider takes only schemas of type object, without anyOf at the top level")
	}
	if !strict {
		return format, nil
	}
	return sjson.SetRawBytes(format, path, root)
}

// toolID returns the ID of a call in the form that the server accepts.
func (p *Provider) toolID(id string) string {
	switch {
	case p.traits.mistral:
		return shortID(id)
	case p.traits.enforces:
		return provider.CallID(id, maxToolID)
	}
	return id
}

// extra returns a call's opaque state if the server may use it. Anthropic's state is not for this dialect, reasoning is
// sent in other members, and a strict server accepts none.
func (p *Provider) extra(state json.RawMessage) json.RawMessage {
	state = WithoutThought(state)
	if len(state) == 0 || p.traits.strict || gjson.GetBytes(state, "anthropic").Exists() {
		return nil
	}
	return state
}

func encodeParts(content []provider.Part) []part {
	parts := make([]part, len(content))
	for i, c := range content {
		switch {
		case c.File != nil && c.File.IsText():
			parts[i] = encodeText(c.File)
		case c.File != nil:
			parts[i] = part{Type: "file", File: &file{cmp.Or(c.File.Name, "document"), c.File.URL}}
		case c.ImageURL != "":
			parts[i] = part{Type: "image_url", ImageURL: &imageURL{c.ImageURL, c.Detail}}
		default:
			parts[i] = part{Type: "text", Text: &c.Text}
		}
	}
	return parts
}

// encodeText returns a text document as a text part that begins with the document's name, because the dialect's files
// are PDFs.
func encodeText(document *provider.File) part {
	text, ok := document.NamedText()
	if !ok { // The text is not UTF-8.
		return part{Type: "file", File: &file{cmp.Or(document.Name, "document"), document.URL}}
	}
	return part{Type: "text", Text: &text}
}

func encodeChoice(choice *provider.ToolChoice) any {
	if choice.Mode == "tool" {
		return map[string]any{"type": "function", "function": map[string]string{"name": choice.Name}}
	}
	return choice.Mode
}
