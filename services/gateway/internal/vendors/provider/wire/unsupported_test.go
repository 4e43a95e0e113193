package wire

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Errors about what the vendor or its model lacks are told apart from errors about the request.
func TestIsUnsupported(t *testing.T) {
	for text, want := range map[string]bool{
		"output_format.schema: For 'integer' type, property 'minimum' is not supported":                                      true,
		"properties maximum, minimum are not supported":                                                                      true,
		"`temperature` is deprecated for this model.":                                                                        true,
		"`temperature` and `top_p` cannot both be specified for this model. Please use only one.":                            true,
		"This model does not support assistant message prefill. The conversation must end with a user message.":              true,
		"Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) value is supported.":    true,
		"Invalid schema for response_format 'n': In context=('properties', 'a'), 'minLength' is not permitted.":              true,
		"For 'object' type, 'additionalProperties' must be explicitly set to false":                                          true,
		"tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'":                true,
		"tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level":                 true,
		"Malformed input request: #: extraneous key [thinking] is not permitted, please reformat your input":                 true,
		"output_config: Extra inputs are not permitted":                                                                      true,
		"Input tag 'web_search_20990101' found using 'type' does not match any of the expected tags: 'bash_20250124'":        true,
		`Invalid schema for response_format 'n': schema must be a JSON Schema of 'type: "object"', got 'type: "array"'.`:     true,
		"Penalty is not enabled for this model":                                                                              true,
		"Thinking may not be enabled when tool_choice forces tool use.":                                                      true,
		"The model returned the following errors: Tool use with function calling is unsupported":                             false,
		"messages: at least one message is required":                                                                         false,
		"Invalid schema for response_format 'city'.":                                                                         false,
		"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after":                               false,
		"Invalid 'messages[0].content': string too long.":                                                                    false,
		"max_tokens: must be greater than or equal to 1":                                                                     false,
		"Invalid value: 'wizard'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.": false,
		"Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.":                      false,
		strings.Repeat("the request is wrong, ", 1<<10) + "since it is not supported":                                        false,
	} {
		for _, status := range []int{400, 422, 0, 200} {
			if got := isUnsupported(&provider.Error{Class: apierr.ClassPolicy, Status: status, Text: text}); got != want {
				t.Errorf("%d %.200s: %v, want %v", status, text, got, want)
			}
		}
	}
	for code, want := range map[string]bool{"unsupported_parameter": true, "unsupported_value": true, "string_above_max_length": false, "": false} {
		if got := isUnsupported(&provider.Error{Class: apierr.ClassPolicy, Status: 400, Code: code}); got != want {
			t.Errorf("code %q: %v, want %v", code, got, want)
		}
	}
	const text = "is not supported"
	for _, e := range []provider.Error{
		{Class: apierr.ClassAuth, Status: 400, Text: text},
		{Class: apierr.ClassPolicy, Status: 404, Text: text},
		{Class: apierr.ClassPolicy, Status: 413, Text: text},
		{Class: apierr.ClassContentPolicy, Status: 400, Text: text},
		{Class: apierr.ClassServerError, Text: text},
		{Class: apierr.ClassServerError, Status: 500, Text: text},
	} {
		if isUnsupported(&e) {
			t.Errorf("%v counts as unsupported", &e)
		}
	}
}
