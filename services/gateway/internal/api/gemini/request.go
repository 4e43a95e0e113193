package gemini

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Call is what the URL of a request says.
type Call struct {
	// Model is the model in the path; empty leaves it to the body.
	Model string
	// Stream reports whether the answer is streamed, Array whether as an array of JSON and not as server-sent events.
	Stream, Array bool
}

// reader parses a request.
type reader struct {
	*object
	chat *dialect.Chat
	turn conversation
	// choices and output are bounds of the answer; thoughts reports whether the caller asks to see them.
	choices, output int64
	thoughts        bool
}

var requestNames = known(requestFields.Names()...)

// Chat parses a request whose body names the model.
func (Dialect) Chat(body []byte, _ http.Header) (*dialect.Chat, error) { return Read(body, Call{}) }

// Read parses a request. What every dialect can carry goes into the chat; the rest stays in the body for a provider of
// this dialect.
func Read(body []byte, call Call) (*dialect.Chat, error) {
	root, err := parse(body, requestNames)
	if err != nil {
		return nil, err
	}
	r := &reader{object: root, chat: &dialect.Chat{Localize: localize, Stream: call.Stream, Images: true}}
	if r.chat.Model, err = modelOf(root, call.Model); err != nil {
		return nil, err
	}
	for _, read := range []func() error{r.generation, r.system, r.contents, r.tools, r.special} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	r.chat.Reasoning, r.chat.Writer = r.thoughts, writer{r.thoughts, call.Array}
	if err := r.chat.Finish(r.Object, Dialect{}.Name(), body); err != nil {
		return nil, err
	}
	b := &r.chat.Bounds
	b.Choices, b.Output, b.Thinking = r.choices, r.output, 0 // The budget is a part of the output.
	b.LimitField = "generationConfig.maxOutputTokens"
	return r.chat, nil
}

// modelOf returns the model of the path, with which the body's must agree, or the body's.
func modelOf(o *object, inPath string) (string, error) {
	var named string
	if err := o.take("model", &named); err != nil {
		return "", err
	}
	named = strings.TrimPrefix(named, collection)
	if inPath != "" && named != "" && named != inPath {
		return "", apierr.Invalid(o.at("model"), "must be the model of the path")
	}
	if inPath != "" {
		return inPath, nil
	}
	return named, nil
}

var generationNames = known(generationFields.Names()...)

const (
	maxTokens     = 10_000_000
	maxCandidates = 128
)

// generation reads the settings of the answer.
func (r *reader) generation() error {
	raw := r.raw("generationConfig")
	if raw == nil {
		return nil
	}
	o, err := newObject("generationConfig", raw, generationNames)
	if err != nil {
		return err
	}
	c := &r.chat.Chat
	if err := o.takeAll(
		field{"temperature", &c.Temperature}, field{"topP", &c.TopP}, field{"stopSequences", &c.Stop}, field{"seed", &c.Seed},
		field{"presencePenalty", &c.PresencePenalty}, field{"frequencyPenalty", &c.FrequencyPenalty},
	); err != nil {
		return err
	}
	if err := o.whole("maxOutputTokens", 1, maxTokens, &r.output); err != nil {
		return err
	}
	c.MaxTokens = int(r.output)
	if err := o.whole("candidateCount", 1, maxCandidates, &r.choices); err != nil {
		return err
	}
	for _, read := range []func(*object) error{r.format, r.thinking, r.modalities} {
		if err := read(o); err != nil {
			return err
		}
	}
	r.chat.Classify(generationFields, "generationConfig.", o.raw)
	for _, name := range o.unknown(generationFields) {
		r.chat.Ignores("generationConfig." + name)
	}
	return nil
}

// modalities reads what the answer consists of: text at every provider, images and sound at this dialect's only.
func (r *reader) modalities(o *object) error {
	const name = "responseModalities"
	var list []string
	if err := o.take(name, &list); err != nil {
		return err
	}
	for i, m := range list {
		if m != "TEXT" && m != "MODALITY_UNSPECIFIED" {
			r.chat.Restrict(dialect.At(o.at(name), i))
			r.chat.Surcharge(dialect.At(o.at(name), i))
		}
	}
	return nil
}

// format reads the format of the answer.
func (r *reader) format(o *object) error {
	var kind string
	if err := o.take("responseMimeType", &kind); err != nil {
		return err
	}
	schema := o.raw("responseJsonSchema")
	if own := o.raw("responseSchema"); own != nil {
		if schema != nil {
			return apierr.Invalid(o.at("responseSchema"), "excludes responseJsonSchema")
		}
		var err error
		if schema, err = jsonSchema(o.at("responseSchema"), own); err != nil {
			return err
		}
	}
	switch kind {
	case "", "text/plain":
		if schema == nil {
			return nil
		}
	case "application/json":
	default: // text/x.enum
		r.chat.Restrict(o.at("responseMimeType"))
		return nil
	}
	if schema == nil {
		r.chat.Chat.ResponseFormat = json.RawMessage(`{"type":"json_object"}`)
		return nil
	}
	if schema[0] != '{' {
		return apierr.Invalid(o.at("responseJsonSchema"), "must be an object")
	}
	var err error
	r.chat.Chat.ResponseFormat, err = jsontext.Marshal(map[string]any{
		"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": schema},
	})
	return err
}

var thinkingNames = known("includeThoughts", "thinkingBudget", "thinkingLevel")

// thinking reads how much to think: a level or a budget, of which 0 is none and -1 leaves it to the model.
func (r *reader) thinking(o *object) error {
	raw := o.raw("thinkingConfig")
	if raw == nil {
		return nil
	}
	o, err := newObject(o.at("thinkingConfig"), raw, thinkingNames)
	if err != nil {
		return err
	}
	var level string
	budget := int64(-1)
	if err := o.takeAll(field{"includeThoughts", &r.thoughts}, field{"thinkingLevel", &level}); err != nil {
		return err
	}
	if err := o.whole("thinkingBudget", -1, maxTokens, &budget); err != nil {
		return err
	}
	var wanted provider.Reasoning
	if level != "" && level != "THINKING_LEVEL_UNSPECIFIED" {
		if o.has("thinkingBudget") {
			return apierr.Invalid(o.at("thinkingLevel"), "excludes thinkingBudget")
		}
		wanted.Effort = provider.Effort(strings.ToLower(level))
	}
	switch {
	case budget == 0:
		wanted.Effort = provider.EffortNone
	case budget > 0:
		wanted.BudgetTokens = int(budget)
	}
	if r.thoughts {
		wanted.Summary = "auto"
	}
	if wanted != (provider.Reasoning{}) {
		r.chat.Think(o.at("thinkingLevel"), wanted)
	}
	return nil
}

// special reads what is not for every dialect.
func (r *reader) special() error {
	r.chat.Classify(requestFields, "", r.raw)
	for _, name := range r.unknown(requestFields) {
		r.chat.Ignores(name)
	}
	if len(r.chat.Chat.Messages) == r.turn.system && r.chat.Only == "" {
		r.chat.Restrict("contents") // It holds what only this dialect has.
	}
	return nil
}

// localize puts an instruction before the caller's own.
func localize(body []byte, instruction string) ([]byte, error) {
	root, err := parse(body, requestNames)
	if err != nil {
		return nil, err
	}
	part := append(jsontext.AppendText([]byte(`{"text":`), instruction), '}')
	name := "systemInstruction"
	if written, ok := root.written[name]; ok {
		name = written
	}
	parts := append([]byte("["), part...)
	if raw := root.raw("systemInstruction"); raw != nil {
		own, err := newObject("systemInstruction", raw, contentNames)
		if err != nil {
			return nil, err
		}
		list := bytes.TrimSpace(own.raw("parts"))
		if len(list) > 1 && list[0] == '[' && len(bytes.TrimSpace(list[1:len(list)-1])) > 0 {
			parts = append(append(parts, ','), list[1:len(list)-1]...)
		}
	}
	instructed := append(append([]byte(`{"parts":`), parts...), "]}"...)
	return sjson.SetRawBytes(bytes.Clone(body), name, instructed)
}

// WithModel returns the body of a valid request with the model that the path named, as Chat reads it.
func WithModel(body []byte, model string) []byte {
	root, err := parse(body, requestNames)
	if err != nil || model == "" || root.has("model") {
		return body
	}
	rest := bytes.TrimSpace(body)[1:]
	out := jsontext.AppendText(append(make([]byte, 0, len(body)+len(model)+16), `{"model":`...), model)
	if next := bytes.TrimSpace(rest); next[0] != '}' {
		out = append(out, ',')
	}
	return append(out, rest...)
}
