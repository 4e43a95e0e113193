package wire

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// lacking lists texts that say what the vendor or its model lacks, by the vendor.
var lacking = map[string][]string{
	"OpenAI": {
		"Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) value is supported.",
		"Unrecognized request argument supplied: reasoning_effort",
		"Unrecognized request arguments supplied: foo, bar",
		"Model incompatible request argument supplied: temperature",
		"Model incompatible request arguments supplied: temperature, top_p",
		"Invalid content type. image_url is only supported by certain models.",
		"This model is only supported in v1/responses and not in v1/chat/completions.",
		"'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
		"max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
		"Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 150 instead.",
		"Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 46 instead.",
		"Invalid schema for response_format 'n': In context=('properties', 'a'), 'minLength' is not permitted.",
		`Invalid schema for response_format 'n': schema must be a JSON Schema of 'type: "object"', got 'type: "array"'.`,
		"Invalid schema for response_format 'n': context=('properties', 'y'), $ref cannot have keywords {'description'}.",
		"Invalid schema for function 'f': In context=(), 'required' is required to be supplied and to be an array including every key in properties. Missing 'x'.",
	},
	"Anthropic": {
		"output_format.schema: For 'integer' type, property 'minimum' is not supported",
		"properties maximum, minimum are not supported",
		"`temperature` is deprecated for this model.",
		"`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
		"This model does not support assistant message prefill. The conversation must end with a user message.",
		"Thinking may not be enabled when tool_choice forces tool use.",
		"output_config: Extra inputs are not permitted",
		"Input tag 'web_search_20990101' found using 'type' does not match any of the expected tags: 'bash_20250124'",
		"For 'object' type, 'additionalProperties' must be explicitly set to false",
		"tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
		"tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
		"The compiled grammar is too large, which would cause performance issues. Simplify your tool schemas or reduce the number of strict tools.",
		"Schema is too complex for compilation. Try reducing the number of tools or simplifying tool schemas.",
		"Schemas contains too many optional parameters (42), which would make grammar compilation inefficient. (limit: 24).",
		"Schemas contains too many parameters with union types (17 parameters with type arrays or anyOf). (limit: 16 parameters with unions).",
		"Too many strict tools (25). The maximum number of strict tools supported is 20.",
		"max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
	},
	"Amazon Bedrock": {
		"Malformed input request: #: extraneous key [thinking] is not permitted, please reformat your input",
		"This model doesn't support tool use in streaming mode.",
	},
	"Google": {
		"Penalty is not enabled for this model",
		"Penalty is not enabled for models/gemini-2.5-flash",
		"Thinking is not enabled for models/gemini-2.0-flash-preview-image-generation",
		"Thinking is not enabled for api version v1",
		"Function calling is not enabled for models/gemma-3-27b-it",
		"Developer instruction is not enabled for models/gemma-3-27b-it",
		"JSON mode is not enabled for models/gemma-3-4b-it",
		"Image input modality is not enabled for models/gemma-3n-e4b-it",
		"Function calling with a response mime type: 'application/json' is unsupported",
		"Tool use with function calling is unsupported",
		"The specified schema produces a constraint that has too many states for serving. Typical causes are schemas with lots of text.",
		"Budget 0 is invalid. This model only works in thinking mode.",
		"Unable to submit request because Thinking_config.include_thoughts is only enabled when thinking is enabled.",
		"Unable to submit request because thinking_budget is out of range; supported values are integers from 512 to 24576.",
		`Invalid JSON payload received. Unknown name "thinkingLevel" at 'generation_config.thinking_config': Cannot find field.`,
		`Invalid JSON payload received. Unknown name "thinking": Cannot find field.`,
	},
	"vLLM": {
		`"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`,
		"At most 0 image(s) may be provided in one prompt.",
		"GLM-5.2 is not a multimodal model",
	},
	"xAI":        {"Argument not supported on this model: presencePenalty"},
	"DeepSeek":   {"This response_format type is unavailable now"},
	"Groq":       {"'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]"},
	"OpenRouter": {"No endpoints found that support image input", "No endpoints found that support tool use."},
}

// faulty lists texts about requests that are wrong, whichever vendor gets them.
var faulty = []string{
	"messages: at least one message is required",
	"Invalid schema for response_format 'city'.",
	"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after",
	"max_tokens: must be greater than or equal to 1",
	"Invalid value: 'wizard'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
	"Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.",
	// Prompts that are too long.
	"Invalid 'messages[0].content': string too long.",
	"prompt is too long: 250000 tokens > 200000 maximum",
	"This model's maximum context length is 8192 tokens. However, you requested 8256 tokens (64 in the messages, 8192 in the completion).",
	"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
	// Arguments of calls that are not JSON.
	"messages.1.content.0.tool_use.input: Input should be a valid dictionary",
	"Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead.",
	"Invalid JSON payload received. Unexpected token.",
	`Invalid value at 'contents[0].parts[0]' (oneof), oneof field 'data' is already set. Cannot set 'inlineData'`,
	// Images that can't be read.
	"You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].",
	"Could not process image",
	"messages.0.content.0.image.source.base64: invalid base64 data",
	"Unable to process input image. Please retry or report in https://developers.generativeai.google/guide/troubleshooting",
	strings.Repeat("the request is wrong, ", 1<<10) + "since it is not supported",
}

// Errors about what the vendor or its model lacks are told apart from errors about the request.
func TestIsUnsupported(t *testing.T) {
	check := func(text string, want bool) {
		for _, status := range []int{400, 422, 0, 200} {
			if got := isUnsupported(&provider.Error{Class: apierr.ClassPolicy, Status: status, Text: text}); got != want {
				t.Errorf("%d %.200s: %v, want %v", status, text, got, want)
			}
		}
	}
	for _, texts := range lacking {
		for _, text := range texts {
			check(text, true)
		}
	}
	for _, text := range faulty {
		check(text, false)
	}
	for code, want := range map[string]bool{
		"unsupported_parameter": true, "unsupported_value": true, "array_above_max_length": true, "invalid_json_schema": true,
		"invalid_function_parameters": true, "string_above_max_length": false, "invalid_value": false, "": false,
	} {
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

// A 404 counts only if it names what the model lacks: an unknown model is the caller's mistake.
func TestIsUnsupportedNotFound(t *testing.T) {
	for text, want := range map[string]bool{
		"No endpoints found that support image input":                                                     true,
		"This model is only supported in v1/responses and not in v1/chat/completions.":                    true,
		"This is not a chat model and thus not supported in the v1/chat/completions endpoint.":            true,
		"The model `gpt-99` does not exist or you do not have access to it.":                              false,
		"models/gemini-99 is not found for API version v1beta, or is not supported for generateContent.":  false,
		"No endpoints found for openai/gpt-99.":                                                           false,
		strings.Repeat("the model is not found, ", 1<<10) + "No endpoints found that support image input": false,
	} {
		if got := isUnsupported(&provider.Error{Class: apierr.ClassPolicy, Status: 404, Text: text}); got != want {
			t.Errorf("%.200s: %v, want %v", text, got, want)
		}
	}
}
