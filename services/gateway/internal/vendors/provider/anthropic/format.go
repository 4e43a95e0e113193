package anthropic

import (
	"encoding/json"

	"switchyard.dev/services/gateway/internal/vendors/provider"
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

// output returns the request's configuration of the output.
func (r *request) output() *outputConfig {
	if r.OutputConfig == nil {
		r.OutputConfig = &outputConfig{}
	}
	return r.OutputConfig
}

// Instructions for formats that the dialect has no setting for. A code fence would make the answer's text more than
// JSON.
const (
	askForObject = "Answer with one JSON object and nothing else: no Markdown, no code fence."
	askForSchema = "Answer with one JSON value that matches this JSON schema, and nothing else: no Markdown, no code fence.\n"
)

// encodeFormat constrains the output if the schema is strict, so that the text is JSON of that schema and never a tool
// call. The constraint supports only closed schemas, which strict ones are. A loose schema and "any object" are
// requested by an instruction, because the dialect has no setting for them.
func encodeFormat(r *request, format json.RawMessage) error {
	if len(format) == 0 {
		return nil
	}
	var f struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Description string          `json:"description"`
			Strict      bool            `json:"strict"`
			Schema      json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if err := json.Unmarshal(format, &f); err != nil {
		return &provider.Error{Class: apierr.ClassPolicy, Text: "response_format: is not valid", Cause: err}
	}
	ask := func(text string) { r.System = append(r.System, block{Type: "text", Text: text}) }
	switch schema := f.JSONSchema; {
	case f.Type == "" || f.Type == "text":
		return nil
	case f.Type == "json_object":
		ask(askForObject)
	case f.Type != "json_schema":
		return provider.Unsupported("response_format.type", "this provider supports json_object and json_schema")
	case len(schema.Schema) == 0:
		return &provider.Error{Class: apierr.ClassPolicy, Text: "response_format.json_schema.schema: is required"}
	case schema.Strict:
		r.output().Format = &outputFormat{"json_schema", schema.Schema}
	default:
		ask(askForSchema + string(schema.Schema))
	}
	if f.JSONSchema.Description != "" {
		ask("The answer is: " + f.JSONSchema.Description)
	}
	return nil
}
