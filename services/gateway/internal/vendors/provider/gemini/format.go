package gemini

import (
	"encoding/json"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
)

// encodeFormat requests JSON, with a schema if there is one.
func (r *request) encodeFormat(g *generationConfig, format json.RawMessage) error {
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
		return invalid("response_format: is not valid", err)
	}
	switch f.Type {
	case "", "text":
		return nil
	case "json_object":
		g.ResponseType = "application/json"
		return nil
	case "json_schema":
	default:
		return provider.Unsupported("response_format.type", "this provider supports json_object and json_schema")
	}
	wanted := f.JSONSchema
	if len(wanted.Schema) == 0 {
		return invalid("response_format.json_schema.schema: is required", nil)
	}
	if wanted.Strict {
		var err error
		if wanted.Schema, err = schema.Gemini.Convert("response_format.json_schema.schema", wanted.Schema); err != nil {
			return err
		}
	}
	g.ResponseType, g.ResponseSchema = "application/json", wanted.Schema
	if wanted.Description != "" {
		r.join("", []part{{Text: "The answer is: " + wanted.Description}})
	}
	return nil
}
