package responses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// reader parses a request.
type reader struct {
	*dialect.Object
	chat     *dialect.Chat
	exchange *Exchange
	input    conversation
	// list are all items of the input, of which the first before are those of the conversation that it continues.
	// completed reports whether they are more than the body holds.
	list      []json.RawMessage
	before    int
	completed bool
	// behind is the number of bytes that compactions of vendors stand for.
	behind int
}

// Read parses a request. What every dialect can carry goes into the chat; the rest stays in the body for a provider
// that takes this form. from finds what the request refers to; nil where nothing is stored.
func Read(body []byte, header http.Header, from History) (*dialect.Chat, *Exchange, error) {
	object, err := dialect.Parse(body)
	if err != nil {
		return nil, nil, err
	}
	exchange := &Exchange{ID: newID("resp"), created: time.Now()}
	r := &reader{Object: object, chat: &dialect.Chat{Localize: localize, Writer: exchange, Reasoning: true, Images: true, Keeps: true}, exchange: exchange}
	history := func() error { return r.history(from) }
	for _, read := range []func() error{r.settings, history, r.expand, r.text, r.instructions, r.reasoning, r.tools, r.items, r.special} {
		if err := read(); err != nil {
			return nil, nil, err
		}
	}
	r.repeat()
	exchange.own = slices.Clone(r.list[r.before:])
	if exchange.Body, err = r.complete(body); err != nil {
		return nil, nil, apierr.Internal(err)
	}
	if err := r.chat.Finish(r.Object, Dialect{}.Name(), exchange.Body); err != nil {
		return nil, nil, err
	}
	r.chat.Bounds.LimitField = limitField
	if beta := header.Get(betaHeader); beta != "" {
		r.chat.Chat.Native.Headers = map[string]string{betaHeader: beta}
	}
	return r.chat, exchange, nil
}

// limitField is the field that limits the output tokens.
const limitField = "max_output_tokens"

// betaHeader belongs to the body: it enables features that the body uses.
const betaHeader = "OpenAI-Beta"

func (r *reader) settings() error {
	c := &r.chat.Chat
	e := &r.exchange.echo
	e.Store, e.ParallelToolCalls = true, true
	for _, setting := range [...]struct {
		name string
		into any
	}{
		{"model", &r.chat.Model},
		{"stream", &r.chat.Stream},
		{"store", &e.Store},
		{"previous_response_id", &e.PreviousResponseID},
		{"metadata", &r.chat.Metadata},
		{"temperature", &c.Temperature},
		{"top_p", &c.TopP},
		{"parallel_tool_calls", &c.ParallelTools},
	} {
		if err := r.Take(setting.name, setting.into); err != nil {
			return err
		}
	}
	r.chat.Stored = e.Store
	var options struct {
		Obfuscate bool `json:"include_obfuscation"`
	}
	if json.Unmarshal(r.Raw("stream_options"), &options) == nil && options.Obfuscate {
		r.chat.Ignores("stream_options.include_obfuscation")
	}
	c.EndUser, c.CacheKey = cmp.Or(r.HintText("safety_identifier"), r.HintText("user")), r.HintText("prompt_cache_key")
	if c.ParallelTools != nil {
		e.ParallelToolCalls = *c.ParallelTools
	}
	return r.Tokens(limitField, &c.MaxTokens)
}

// text reads the format of the answer. The verbosity is a hint.
func (r *reader) text() error {
	raw := r.Raw("text")
	if raw == nil {
		return nil
	}
	var text struct {
		Format    json.RawMessage `json:"format"`
		Verbosity *string         `json:"verbosity"`
	}
	if err := dialect.Decode("text", raw, &text); err != nil {
		return err
	}
	if text.Verbosity != nil && *text.Verbosity != "medium" {
		r.chat.Chat.Verbosity = *text.Verbosity
		r.chat.Hint(provider.HintVerbosity, "text.verbosity")
	}
	if len(text.Format) == 0 || string(text.Format) == "null" {
		return nil
	}
	return r.format("text.format", text.Format)
}

// format reads a format, which is flat here: the contract nests what belongs to a schema.
func (r *reader) format(path string, raw json.RawMessage) error {
	var format struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      *bool           `json:"strict"`
	}
	if err := dialect.Decode(path, raw, &format); err != nil {
		return err
	}
	switch format.Type {
	case "text":
		return nil
	case "json_object":
		r.chat.Chat.ResponseFormat = json.RawMessage(`{"type":"json_object"}`)
		return nil
	case "json_schema":
	default:
		r.chat.Restrict(path + ".type")
		return nil
	}
	if len(format.Schema) == 0 || format.Schema[0] != '{' {
		return apierr.Invalid(path+".schema", "must be an object")
	}
	schema := map[string]any{"name": cmp.Or(format.Name, "answer"), "schema": format.Schema}
	if format.Description != "" {
		schema["description"] = format.Description
	}
	if format.Strict != nil {
		schema["strict"] = *format.Strict
	}
	var err error
	r.chat.Chat.ResponseFormat, err = jsontext.Marshal(map[string]any{"type": "json_schema", "json_schema": schema})
	return err
}

// instructions precede the conversation.
func (r *reader) instructions() error {
	var text string
	if err := r.Take("instructions", &text); err != nil {
		return err
	}
	if text != "" {
		r.chat.Chat.Messages = append(r.chat.Chat.Messages, message(provider.RoleSystem, text))
	}
	return nil
}

func message(role provider.Role, text string) provider.Message {
	return provider.Message{Role: role, Content: []provider.Part{{Text: text}}}
}

// reasoning reads how much to think.
func (r *reader) reasoning() error {
	raw := r.Raw("reasoning")
	if raw == nil {
		return nil
	}
	var asked struct {
		Effort  provider.Effort `json:"effort"`
		Summary string          `json:"summary"`
		Old     string          `json:"generate_summary"`
	}
	if err := dialect.Decode("reasoning", raw, &asked); err != nil {
		return err
	}
	if wanted := (provider.Reasoning{Effort: asked.Effort, Summary: cmp.Or(asked.Summary, asked.Old)}); wanted != (provider.Reasoning{}) {
		r.chat.Think("reasoning.effort", wanted)
	}
	return nil
}

func (r *reader) tools() error {
	if err := r.readTools("tools", "", r.Raw("tools")); err != nil {
		return err
	}
	return r.toolChoice(r.Raw("tool_choice"))
}

// special checks the fields that only this dialect has.
func (r *reader) special() error {
	if r.Has("conversation") {
		return apierr.Invalid("conversation", "is not supported; use previous_response_id")
	}
	var background bool
	if err := r.Take("background", &background); err != nil {
		return err
	}
	if background && !r.exchange.echo.Store {
		return apierr.Invalid("background", "needs store: the response is read later")
	}
	r.exchange.echo.Background = background
	if err := r.hints(); err != nil {
		return err
	}
	r.chat.Classify(requestFields, "", r.Raw)
	for _, name := range r.Unknown(requestFields) {
		r.chat.Ignores(name)
	}
	return r.include()
}

// hints checks the hints with few valid values: a provider that serves without one would not refuse a wrong value.
func (r *reader) hints() error {
	var truncation string
	if err := r.Take("truncation", &truncation); err != nil {
		return err
	}
	if truncation != "" && truncation != "auto" && truncation != "disabled" {
		return apierr.Invalid("truncation", "must be auto or disabled")
	}
	most := int64(1)
	if err := r.Take("max_tool_calls", &most); err != nil {
		return err
	}
	if most < 1 {
		return apierr.Invalid("max_tool_calls", "must be at least 1")
	}
	return nil
}

// included are the values of include. What only hosted tools return is left out elsewhere, and named; state that comes back
// with reasoning is included at every vendor.
var included = []string{
	"file_search_call.results", "web_search_call.results", "web_search_call.action.sources", "message.input_image.image_url",
	"computer_call_output.output.image_url", "code_interpreter_call.outputs", "reasoning.encrypted_content",
	"message.output_text.logprobs",
}

func (r *reader) include() error {
	list, err := dialect.Elements("include", r.Raw("include"))
	if err != nil {
		return err
	}
	for i, one := range list {
		var name string
		path := dialect.At("include", i)
		if err := dialect.Decode(path, one, &name); err != nil {
			return err
		}
		if !slices.Contains(included, name) {
			return apierr.Invalid(path, "must be one of "+strings.Join(included, ", "))
		}
		switch name {
		case "reasoning.encrypted_content":
		case "message.output_text.logprobs":
			r.chat.Restrict(path)
		default:
			r.chat.Ignores("include." + name)
		}
	}
	return nil
}

// repeat keeps what the answer repeats: the settings without the credentials of tools' servers, since the answer is stored
// for others to read.
func (r *reader) repeat() {
	e := &r.exchange.echo
	for _, field := range [...]struct {
		name     string
		into     *json.RawMessage
		fallback string
	}{
		{"instructions", &e.Instructions, "null"},
		{"max_output_tokens", &e.MaxOutputTokens, "null"},
		{"max_tool_calls", &e.MaxToolCalls, "null"},
		{"metadata", &e.Metadata, "{}"},
		{"prompt_cache_key", &e.PromptCacheKey, ""},
		{"reasoning", &e.Reasoning, `{"effort":null,"summary":null}`},
		{"safety_identifier", &e.SafetyIdentifier, ""},
		{"service_tier", &e.ServiceTier, ""},
		{"temperature", &e.Temperature, "null"},
		{"text", &e.Text, `{"format":{"type":"text"}}`},
		{"tool_choice", &e.ToolChoice, `"auto"`},
		{"tools", &e.Tools, "[]"},
		{"top_logprobs", &e.TopLogprobs, ""},
		{"top_p", &e.TopP, "null"},
		{"truncation", &e.Truncation, `"disabled"`},
		{"user", &e.User, ""},
	} {
		if *field.into = bytes.Clone(r.Raw(field.name)); *field.into == nil && field.fallback != "" {
			*field.into = json.RawMessage(field.fallback)
		}
	}
	e.Tools = redact.ServerCredentials(e.Tools)
}

// localize puts an instruction before the caller's own.
func localize(body []byte, instruction string) ([]byte, error) {
	object, err := dialect.Parse(body)
	if err != nil {
		return nil, err
	}
	var text string
	if err := object.Take("instructions", &text); err != nil {
		return nil, err
	}
	if text != "" {
		instruction += "\n\n" + text
	}
	return sjson.SetRawBytes(bytes.Clone(body), "instructions", jsontext.AppendText(nil, instruction))
}
