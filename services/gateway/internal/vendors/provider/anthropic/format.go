package anthropic

import (
	"encoding/json"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
	"switchyard.dev/services/platform/apierr"
)

// outputConfig constrains the answer's text to JSON of a schema, and says how much effort it may take.
type outputConfig struct {
	Format *outputFormat   `json:"format,omitempty"`
	Effort provider.Effort `json:"effort,omitempty"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// Format is the form of an answer.
type Format struct {
	// Schema constrains the answer's text to JSON of the schema; nil for no constraint. Name and Description are its own,
	// and may be empty.
	Schema            json.RawMessage
	Name, Description string
	// Instructions are for the model, in addition to the caller's.
	Instructions []string
}

func (f *Format) ask(text string) { f.Instructions = append(f.Instructions, text) }

// encodeOutput says how much effort the answer may take, and its form.
func (r *request) encodeOutput(chat *provider.Chat, effort provider.Effort) error {
	form, err := FormatOf(chat)
	if err != nil {
		return err
	}
	for _, text := range form.Instructions {
		r.System = append(r.System, block{Type: "text", Text: text})
	}
	if effort == "" && form.Schema == nil {
		return nil
	}
	r.OutputConfig = &outputConfig{Effort: effort}
	if form.Schema != nil && !enforces(chat.Model) {
		return provider.Unsupported("response_format.json_schema.strict", "this model has no enforced schemas")
	}
	if form.Schema != nil {
		r.OutputConfig.Format = &outputFormat{"json_schema", form.Schema}
	}
	return nil
}

// FormatOf reads the contract's form of a chat's answer; see provider.Chat. A strict schema constrains the output, so
// that the text is JSON of that schema and never a tool call; keywords that the vendors don't enforce become a part of
// the schema's descriptions. A loose schema and "any object" are requested by an instruction, because the dialect has no
// setting for them. Claude can't continue an answer under a strict schema. Source: Anthropic documentation, "Structured
// outputs", feature compatibility.
func FormatOf(chat *provider.Chat) (form Format, err error) {
	format := chat.ResponseFormat
	if len(format) == 0 {
		return form, nil
	}
	var f struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Strict      bool            `json:"strict"`
			Schema      json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if err := json.Unmarshal(format, &f); err != nil {
		return form, &provider.Error{Class: apierr.ClassPolicy, Text: "response_format: is not valid", Cause: err}
	}
	switch wanted := f.JSONSchema; {
	case f.Type == "" || f.Type == "text":
		return form, nil
	case f.Type == "json_object":
		form.ask(provider.AskForJSON(nil))
	case f.Type != "json_schema":
		return form, provider.Unsupported("response_format.type", "this provider supports json_object and json_schema")
	case len(wanted.Schema) == 0:
		return form, &provider.Error{Class: apierr.ClassPolicy, Text: "response_format.json_schema.schema: is required"}
	case wanted.Strict && Version(chat.Model) > 0 && beginsAnswer(chat.Messages):
		return form, provider.Unsupported("response_format.json_schema.strict", "this model continues no answer under a schema")
	case wanted.Strict:
		form.Name, form.Description = wanted.Name, wanted.Description
		if form.Schema, err = schema.Anthropic.Convert("response_format.json_schema.schema", wanted.Schema); err != nil {
			return form, err
		}
	default:
		form.ask(provider.AskForJSON(wanted.Schema))
	}
	if f.JSONSchema.Description != "" {
		form.ask("The answer is: " + f.JSONSchema.Description)
	}
	return form, nil
}
