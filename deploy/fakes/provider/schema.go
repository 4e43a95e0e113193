package provider

import (
	"encoding/json"
	"maps"
	"slices"
)

// schema is the part of JSON Schema that suffices to fill in arguments.
type schema struct {
	Type       any                        `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Enum       []json.RawMessage          `json:"enum"`
}

// fillSchema returns arguments that fit an object schema: each property by its type, strings from text. Without a
// readable schema it returns {}.
func fillSchema(raw json.RawMessage, text string) json.RawMessage {
	var s schema
	// A tool without a schema is allowed, and takes no arguments.
	_ = json.Unmarshal(raw, &s)
	args := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		args[name] = fillValue(s.Properties[name], text)
	}
	return encode(args)
}

func fillValue(raw json.RawMessage, text string) json.RawMessage {
	var s schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return json.RawMessage("null")
	}
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	switch s.Type {
	case "string":
		return encode(text)
	case "integer", "number":
		return json.RawMessage("1")
	case "boolean":
		return json.RawMessage("true")
	case "array":
		return json.RawMessage("[]")
	case "object":
		return fillSchema(raw, text)
	default:
		return json.RawMessage("null")
	}
}
