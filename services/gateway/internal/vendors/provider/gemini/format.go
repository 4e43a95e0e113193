package gemini

import (
	"encoding/json"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
)

// joinsFormats reports whether a model takes functions and a form of the answer in one request. Models before Gemini 3
// don't. Source: Gemini API, "Structured outputs", "Structured outputs with tools".
func joinsFormats(model string) bool {
	v := versionOf(model)
	return v == 0 || v >= firstLevels
}

// encodeFormat requests JSON, with a schema if there is one. A model that takes no form with functions is asked by an
// instruction, but never for a strict schema.
func (r *request) encodeFormat(g *generationConfig, chat *provider.Chat) error {
	format := chat.ResponseFormat
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
	wanted, joined := f.JSONSchema, len(chat.Tools) == 0 || joinsFormats(chat.Model)
	switch {
	case f.Type == "", f.Type == "text":
		return nil
	case f.Type == "json_object":
		wanted.Schema, wanted.Description = nil, ""
	case f.Type != "json_schema":
		return provider.Unsupported("response_format.type", "this provider supports json_object and json_schema")
	case len(wanted.Schema) == 0:
		return invalid("response_format.json_schema.schema: is required", nil)
	case wanted.Strict && !joined:
		return provider.Unsupported("response_format.json_schema.strict",
			"this model enforces no schema of the answer if it may call functions")
	case wanted.Strict:
		var err error
		if wanted.Schema, err = schema.Gemini.Convert("response_format.json_schema.schema", wanted.Schema); err != nil {
			return err
		}
	}
	if joined {
		g.ResponseType, g.ResponseSchema = "application/json", wanted.Schema
	} else {
		r.join("", []part{{Text: provider.AskForJSON(wanted.Schema)}})
	}
	if wanted.Description != "" {
		r.join("", []part{{Text: "The answer is: " + wanted.Description}})
	}
	return nil
}
