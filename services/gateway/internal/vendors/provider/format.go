package provider

import "encoding/json"

// Instructions for forms of answers that a dialect or model has no setting for. A code fence would make the answer's
// text more than JSON.
const (
	askForObject = "Answer with one JSON object and nothing else: no Markdown, no code fence."
	askForSchema = "Answer with one JSON value that matches this JSON schema, and nothing else: " +
		"no Markdown, no code fence.\n"
)

// AskForJSON returns the instruction to answer with JSON of a schema; with an empty schema, any object will do.
func AskForJSON(schema json.RawMessage) string {
	if len(schema) == 0 {
		return askForObject
	}
	return askForSchema + string(schema)
}
