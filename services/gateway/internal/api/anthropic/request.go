package anthropic

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// headers belong to the body: they enable features that it uses.
var headers = []string{"anthropic-version", "anthropic-beta"}

// reader parses a request.
type reader struct {
	*dialect.Object
	chat *dialect.Chat
	// effort is that of output_config.
	effort provider.Effort
}

// Count parses a request to count the tokens of a chat; it needs no max_tokens.
func (Dialect) Count(body []byte, header http.Header) (*dialect.Chat, error) {
	r, err := read(body)
	if err != nil {
		return nil, err
	}
	return r.finish(body, header)
}

func read(body []byte) (*reader, error) {
	object, err := dialect.Parse(body)
	if err != nil {
		return nil, err
	}
	r := &reader{Object: object, chat: &dialect.Chat{Localize: localize, Writer: Dialect{}, Reasoning: true}}
	for _, read := range []func() error{r.settings, r.system, r.messages, r.tools, r.output, r.thinking} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	r.hints()
	return r, nil
}

// Chat parses a request. What every dialect can carry goes into the chat; the rest stays in the body for a provider of
// this dialect.
func (Dialect) Chat(body []byte, header http.Header) (*dialect.Chat, error) {
	r, err := read(body)
	if err != nil {
		return nil, err
	}
	if r.chat.Chat.MaxTokens == 0 {
		return nil, apierr.Invalid("max_tokens", "is required")
	}
	return r.finish(body, header)
}

// finish reads what is left, and keeps the body for a provider of this dialect.
func (r *reader) finish(body []byte, header http.Header) (*dialect.Chat, error) {
	if err := r.chat.Finish(r.Object, "anthropic", body); err != nil {
		return nil, err
	}
	native := r.chat.Chat.Native
	native.Headers = make(map[string]string)
	for _, name := range headers {
		if values := header.Values(name); len(values) > 0 {
			native.Headers[name] = strings.Join(values, ",")
		}
	}
	return r.chat, nil
}

func (r *reader) settings() error {
	c := &r.chat.Chat
	for _, setting := range [...]struct {
		name string
		into any
	}{
		{"model", &r.chat.Model},
		{"stream", &r.chat.Stream},
		{"temperature", &c.Temperature},
		{"top_p", &c.TopP},
		{"stop_sequences", &c.Stop},
	} {
		if err := r.Take(setting.name, setting.into); err != nil {
			return err
		}
	}
	return r.Tokens("max_tokens", &c.MaxTokens)
}

// surchargedTools are the vendor's own tools that it bills by use or by hour.
var surchargedTools = []string{"web_search", "code_execution"}

// surcharges reports whether a tool of this type, such as "web_search_20250305", is billed separately.
func surcharges(kind string) bool {
	return slices.ContainsFunc(surchargedTools, func(name string) bool { return strings.HasPrefix(kind, name) })
}

// hints reads what is not for every dialect. metadata names the end user.
func (r *reader) hints() {
	var metadata struct {
		UserID string `json:"user_id"`
	}
	if json.Unmarshal(r.Raw("metadata"), &metadata) == nil {
		r.chat.Chat.EndUser = metadata.UserID
	}
	if single := r.chat.Chat.ParallelTools; single != nil && !*single {
		r.chat.Hint(provider.HintOneCall, "tool_choice.disable_parallel_tool_use")
	}
	r.chat.Classify(requestFields, "", r.Raw)
	for _, name := range r.Unknown(requestFields) {
		r.chat.Ignores(name)
	}
}

// tool is one that the caller runs; the vendor's own have other types.
type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict"`
}

func (r *reader) tools() error {
	raw, err := dialect.Elements("tools", r.Raw("tools"))
	if err != nil {
		return err
	}
	for i, one := range raw {
		var t tool
		path := dialect.At("tools", i)
		object, err := element(path, one)
		if err == nil {
			err = dialect.Decode(path, one, &t)
		}
		switch {
		case err != nil:
			return err
		case t.Type != "" && t.Type != "custom":
			r.chat.Open(path + ".type")
			if surcharges(t.Type) {
				r.chat.Surcharge(path + ".type")
			}
			continue
		case t.Name == "":
			return apierr.Invalid(path+".name", "is required")
		}
		object.Ignore("type", "name", "description", "input_schema", "strict", "eager_input_streaming")
		for _, field := range object.Rest() { // cache_control, defer_loading, allowed_callers, input_examples, …
			r.chat.Ignores(field)
		}
		r.chat.Chat.Tools = append(r.chat.Chat.Tools, provider.Tool{
			Name: t.Name, Description: t.Description, Parameters: t.InputSchema, Strict: t.Strict,
		})
	}
	return r.toolChoice(r.Raw("tool_choice"))
}

var choices = map[string]string{"auto": "auto", "any": "required", "none": "none", "tool": "tool"}

func (r *reader) toolChoice(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	var choice struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Sequence *bool  `json:"disable_parallel_tool_use"`
	}
	if err := dialect.Decode("tool_choice", raw, &choice); err != nil {
		return err
	}
	mode, known := choices[choice.Type]
	if !known {
		return apierr.Invalid("tool_choice.type", "must be auto, any, tool or none")
	}
	if len(r.chat.Chat.Tools) > 0 {
		r.chat.Chat.ToolChoice = &provider.ToolChoice{Mode: mode, Name: choice.Name}
	}
	if choice.Sequence != nil {
		r.chat.Chat.ParallelTools = new(!*choice.Sequence)
	}
	return nil
}

// output reads the format of the answer from its two fields.
func (r *reader) output() error {
	if raw := r.Raw("output_config"); raw != nil {
		object, err := element("output_config", raw)
		if err != nil {
			return err
		}
		if err := r.outputFormat("output_config.format", object.Raw("format")); err != nil {
			return err
		}
		if err := object.Take("effort", &r.effort); err != nil {
			return apierr.Invalid("output_config.effort", "must be a string")
		}
		for _, field := range object.Rest() { // task_budget, …
			r.chat.Ignores("output_config." + field)
		}
	}
	return r.outputFormat("output_format", r.Raw("output_format"))
}

func (r *reader) outputFormat(path string, raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	var format struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}
	if err := dialect.Decode(path, raw, &format); err != nil {
		return err
	}
	if format.Type != "json_schema" || len(format.Schema) == 0 {
		r.chat.Restrict(path)
		return nil
	}
	var err error
	r.chat.Chat.ResponseFormat, err = jsontext.Marshal(map[string]any{
		"type":        "json_schema",
		"json_schema": map[string]any{"name": "answer", "schema": format.Schema, "strict": true},
	})
	return err
}

// thinking reads how much to think: a budget, an effort, or as much as the model chooses. Thinking that is switched off
// is what other vendors do without a hint.
func (r *reader) thinking() error {
	var asked struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens"`
		Display string `json:"display"`
	}
	if raw := r.Raw("thinking"); raw != nil {
		if err := dialect.Decode("thinking", raw, &asked); err != nil {
			return err
		}
	}
	if asked.Display != "" && asked.Display != "summarized" { // Every vendor's thinking is shown as far as it is known.
		r.chat.Ignores("thinking.display")
	}
	wanted := provider.Reasoning{Effort: r.effort}
	if asked.Type == "enabled" {
		wanted.BudgetTokens = asked.Budget
	}
	if asked.Type == "adaptive" || asked.Type != "disabled" && wanted != (provider.Reasoning{}) {
		r.chat.Think("output_config.effort", wanted)
	}
	return nil
}

// element parses an object inside a request.
func element(path string, raw json.RawMessage) (*dialect.Object, error) {
	object, err := dialect.Parse(raw)
	if err != nil {
		return nil, apierr.Invalid(path, strings.TrimPrefix(apierr.From(err).Text, "body: "))
	}
	return object, nil
}

// localize inserts an instruction before the system prompt.
func localize(body []byte, instruction string) ([]byte, error) {
	first, err := jsontext.Marshal(map[string]string{"type": "text", "text": instruction})
	if err != nil {
		return nil, err
	}
	object, err := dialect.Parse(body)
	if err != nil {
		return nil, err
	}
	system := object.Raw("system")
	blocks := append([]byte("["), first...)
	switch {
	case len(system) > 0 && system[0] == '"':
		blocks = append(append(append(blocks, `,{"type":"text","text":`...), system...), `}]`...)
	case len(system) > 0 && len(bytes.TrimSpace(system[1:len(system)-1])) > 0:
		blocks = append(append(blocks, ','), system[1:]...)
	default:
		blocks = append(blocks, ']')
	}
	return sjson.SetRawBytes(bytes.Clone(body), "system", blocks)
}
