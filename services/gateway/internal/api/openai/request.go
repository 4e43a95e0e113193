package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// reader parses a request.
type reader struct {
	*dialect.Object
	chat *dialect.Chat
	// called is the number of calls of functions so far, by which they get ids, and last the id of the latest by name.
	called int
	last   map[string]string
}

// Chat parses a request. What every dialect can carry goes into the chat; the rest stays in the body for a provider of
// this dialect.
func (Dialect) Chat(body []byte, _ http.Header) (*dialect.Chat, error) {
	object, err := dialect.Parse(body)
	if err != nil {
		return nil, err
	}
	r := &reader{Object: object, chat: &dialect.Chat{Localize: localize, Writer: Dialect{}, Images: true}}
	for _, read := range []func() error{r.settings, r.messages, r.tools, r.functions, r.format, r.reasoning} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	r.chat.Classify(requestFields, "", r.Raw)
	for _, name := range r.Unknown(requestFields) {
		r.chat.Ignores(name)
	}
	return r.chat, r.chat.Finish(r.Object, "openai", body)
}

func (r *reader) settings() error {
	c := &r.chat.Chat
	var stop json.RawMessage
	var options struct {
		IncludeUsage bool `json:"include_usage"`
		Obfuscate    bool `json:"include_obfuscation"`
	}
	for _, setting := range [...]struct {
		name string
		into any
	}{
		{"model", &r.chat.Model},
		{"stream", &r.chat.Stream},
		{"stream_options", &options},
		{"metadata", &r.chat.Metadata},
		{"temperature", &c.Temperature},
		{"top_p", &c.TopP},
		{"seed", &c.Seed},
		{"presence_penalty", &c.PresencePenalty},
		{"frequency_penalty", &c.FrequencyPenalty},
		{"parallel_tool_calls", &c.ParallelTools},
		{"stop", &stop},
	} {
		if err := r.Take(setting.name, setting.into); err != nil {
			return err
		}
	}
	r.chat.IncludeUsage = options.IncludeUsage
	if options.Obfuscate {
		r.chat.Ignores("stream_options.include_obfuscation")
	}
	c.Verbosity, c.CacheKey = r.HintText("verbosity"), r.HintText("prompt_cache_key")
	c.EndUser = cmp.Or(r.HintText("safety_identifier"), r.HintText("user"))
	for _, name := range []string{"max_tokens", "max_completion_tokens"} { // The newer name has precedence.
		if err := r.Tokens(name, &c.MaxTokens); err != nil {
			return err
		}
	}
	return r.stop(stop)
}

// stop reads a text or a list of texts.
func (r *reader) stop(raw json.RawMessage) error {
	switch {
	case raw == nil:
		return nil
	case raw[0] == '"':
		var one string
		err := dialect.Decode("stop", raw, &one)
		r.chat.Chat.Stop = []string{one}
		return err
	}
	return dialect.Decode("stop", raw, &r.chat.Chat.Stop)
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"function"`
}

func (r *reader) tools() error {
	raw, err := dialect.Elements("tools", r.Raw("tools"))
	if err != nil {
		return err
	}
	for i, one := range raw {
		var t tool
		path := dialect.At("tools", i)
		if err := dialect.Decode(path, one, &t); err != nil {
			return err
		}
		switch {
		case t.Type != typeFunction:
			r.chat.Open(path + ".type")
			continue
		case t.Function.Name == "":
			return apierr.Invalid(path+".function.name", "is required")
		}
		parameters := t.Function.Parameters
		if string(parameters) == "null" {
			parameters = nil
		}
		r.chat.Chat.Tools = append(r.chat.Chat.Tools, provider.Tool{
			Name: t.Function.Name, Description: t.Function.Description, Parameters: parameters,
			Strict: t.Function.Strict != nil && *t.Function.Strict,
		})
	}
	return r.toolChoice(r.Raw("tool_choice"))
}

func (r *reader) toolChoice(raw json.RawMessage) error {
	const path = "tool_choice"
	switch {
	case raw == nil:
		return nil
	case raw[0] == '"':
		var mode string
		if err := dialect.Decode(path, raw, &mode); err != nil {
			return err
		}
		if !slices.Contains([]string{"auto", "none", "required"}, mode) {
			return apierr.Invalid(path, "must be auto, none, required or a function")
		}
		if len(r.chat.Chat.Tools) > 0 {
			r.chat.Chat.ToolChoice = &provider.ToolChoice{Mode: mode}
		}
		return nil
	}
	var choice struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := dialect.Decode(path, raw, &choice); err != nil {
		return err
	}
	if choice.Type != typeFunction {
		r.chat.Restrict(path + ".type")
		return nil
	}
	r.chat.Chat.ToolChoice = &provider.ToolChoice{Mode: "tool", Name: choice.Function.Name}
	return nil
}

// reasoning reads how much to think: the effort, or OpenRouter's object.
func (r *reader) reasoning() error {
	var asked provider.Reasoning
	if err := r.Take("reasoning_effort", &asked.Effort); err != nil {
		return err
	}
	field := "reasoning_effort"
	if raw := r.Raw("reasoning"); raw != nil && asked.Effort == "" {
		var nested struct {
			Effort provider.Effort `json:"effort"`
			Tokens int             `json:"max_tokens"`
		}
		if err := dialect.Decode("reasoning", raw, &nested); err != nil {
			return err
		}
		field, asked.Effort, asked.BudgetTokens = "reasoning.effort", nested.Effort, nested.Tokens
	}
	if asked != (provider.Reasoning{}) {
		r.chat.Think(field, asked)
	}
	return nil
}

func (r *reader) format() error {
	raw := r.Raw("response_format")
	if raw == nil {
		return nil
	}
	var format struct {
		Type string `json:"type"`
	}
	if err := dialect.Decode("response_format", raw, &format); err != nil {
		return err
	}
	switch format.Type {
	case "text":
	case "json_object", "json_schema":
		r.chat.Chat.ResponseFormat = raw
	default:
		r.chat.Restrict("response_format.type")
	}
	return nil
}

// localize inserts an instruction before all messages.
func localize(body []byte, instruction string) ([]byte, error) {
	message, err := json.Marshal(map[string]string{"role": "system", "content": instruction})
	if err != nil {
		return nil, err
	}
	object, err := dialect.Parse(body)
	if err != nil {
		return nil, err
	}
	rest := bytes.TrimSpace(bytes.TrimPrefix(object.Raw("messages"), []byte("[")))
	messages := append([]byte("["), message...)
	return sjson.SetRawBytes(bytes.Clone(body), "messages", append(append(messages, ','), rest...))
}
